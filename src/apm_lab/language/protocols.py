"""What the rest of the house asks of a language backend."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from apm_lab.records import Message

__all__ = [
    "Answer",
    "ChoiceCall",
    "ChoiceModel",
    "CountsTokens",
    "Deferring",
    "Embedder",
    "GenerationCall",
    "KnowsItsPool",
    "NestsAnswers",
    "Question",
    "Ready",
    "SaysWhatItReads",
    "ScoreCall",
    "ScoreModel",
    "StreamsScores",
    "StreamsTexts",
    "TextModel",
    "Usage",
]

Value = TypeVar("Value", covariant=True)


@dataclass(frozen=True, slots=True)
class GenerationCall:
    """One request for text: the chat so far, and which of several independent samples is wanted.

    With `choices` the answer is to be one of these: backends that can constrain decoding do, others take it as a hint.
    """

    messages: tuple[Message, ...]
    sample: int
    choices: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Question:
    """One narrow question to a judge: how strongly does the text follow (`direction=1`) or avoid (`-1`) a principle."""

    principle: str
    direction: int


@dataclass(frozen=True, slots=True)
class ScoreCall:
    """One question about one text; `seed` (16 bytes) is for whatever the rating draws at random."""

    text: str
    question: Question
    seed: bytes


@dataclass(frozen=True, slots=True)
class ChoiceCall:
    """A chat and the answers whose log-probabilities are wanted."""

    messages: tuple[Message, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and written for one answer, as the backend counted them."""

    tokens_in: int
    tokens_out: int


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """The answer to the call at `place` of the calls given; `usage` is None where the backend counts no tokens."""

    place: int
    value: Value
    usage: Usage | None = None


class TextModel(Protocol):
    """A model that answers chats.

    `identity` (model id and revision; simulated: digest of code and constants), `engine` and `sampling` (canonical
    JSON of the sampling values) are part of the store key; nothing else about the model is.
    """

    @property
    def identity(self) -> str:
        """Model id and revision."""
        ...

    @property
    def engine(self) -> str:
        """`simulated`, `hf`, `vllm` or `remote`."""
        ...

    @property
    def sampling(self) -> str:
        """Canonical JSON of the sampling values."""
        ...

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one text per call, in order."""
        ...


class ScoreModel(Protocol):
    """A model that rates texts; same identity rules as `TextModel`."""

    @property
    def identity(self) -> str:
        """Model id and revision."""
        ...

    @property
    def engine(self) -> str:
        """`simulated`, `hf`, `vllm` or `remote`."""
        ...

    @property
    def sampling(self) -> str:
        """Canonical JSON of the sampling values."""
        ...

    def score(self, text: str, questions: Sequence[Question], keys: Sequence[bytes]) -> list[float | None]:
        """Return a rating in [1, 10] per question, or None where there is no verdict; `keys` seed the sampling."""
        ...


@runtime_checkable
class StreamsTexts(Protocol):
    """A `TextModel` whose answers come one after another: what has come is kept, whatever happens to the rest."""

    def stream(self, calls: Sequence[GenerationCall]) -> Iterator[Sequence[Answer[str]]]:
        """Yield the answers in any order, those that came together at once; each group is stored before the next."""
        ...


@runtime_checkable
class StreamsScores(Protocol):
    """A `ScoreModel` that takes questions about many texts at once."""

    def stream_scores(self, calls: Sequence[ScoreCall]) -> Iterator[Sequence[Answer[float | None]]]:
        """Yield ratings in [1, 10], or None where there is no verdict, in any order, as `StreamsTexts` does."""
        ...


@runtime_checkable
class SaysWhatItReads(Protocol):
    """A `ScoreModel` that asks a language model, and says what chats a question comes to."""

    def reads_per_question(self, question: Question) -> tuple[float, float]:
        """Return how often the text is read for one rating, and how many characters are read beside it."""
        ...


@runtime_checkable
class ChoiceModel(Protocol):
    """A model that says how probable given answers are."""

    @property
    def identity(self) -> str:
        """Model id and revision."""
        ...

    @property
    def engine(self) -> str:
        """`hf`, `vllm` or `remote`."""
        ...

    def log_probabilities(self, calls: Sequence[ChoiceCall]) -> Iterator[Sequence[Answer[tuple[float, ...]]]]:
        """Yield per call the natural log-probability of each whole answer as the next turn, in any order.

        Always of the model itself at temperature 1, whatever it samples with; without the token that ends a turn.
        """
        ...


@runtime_checkable
class NestsAnswers(Protocol):
    """A `ChoiceModel` that says how its answers are cut into tokens: what P("1") counts depends on it."""

    def begins(self, answer: str, longer: str) -> bool:
        """Whether the tokens of `answer` begin those of `longer`, so that P(answer) holds P(longer)."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """An encoder of texts."""

    @property
    def identity(self) -> str:
        """Model id and revision."""
        ...

    @property
    def engine(self) -> str:
        """`simulated`, `hf`, `vllm` or `remote`."""
        ...

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one vector per text, (n, H), as the model gives them: not normalised."""
        ...


@runtime_checkable
class CountsTokens(Protocol):
    """A backend that can count tokens with its tokenizer alone, its weights not loaded."""

    def count_tokens(self, texts: Sequence[str]) -> int | None:
        """Return how many tokens these texts have together; None where its tokenizer is not on this machine."""
        ...


@runtime_checkable
class Deferring(Protocol):
    """A backend that answers later: its calls of a whole stage are to go out together.

    While `collecting` is true its `stream` yields what is answered by now and only notes the rest.
    """

    collecting: bool

    def defer(self, calls: Sequence[GenerationCall]) -> None:
        """Note calls for the next `export`, each once."""
        ...

    def export(self) -> None:
        """Send out the noted calls; PendingCalls says where they wait, where there are any."""
        ...


@runtime_checkable
class Ready(Protocol):
    """A backend that needs something of the machine it runs on: a package, weights, a key."""

    def ready(self) -> None:
        """Return nothing where all that it needs is there, with nothing loaded; ApmLabError says what to do."""
        ...


@runtime_checkable
class KnowsItsPool(Protocol):
    """A backend that understands some attributes or principles only, and says so before anything is spent.

    A language model takes any name and has no such method. Names are keys, as `data.pool.slug` makes them.
    """

    def require(self, attributes: Sequence[str], principles: Sequence[str]) -> None:
        """Return nothing where it knows all that its role works with; ConfigError names the others and the nearest."""
        ...
