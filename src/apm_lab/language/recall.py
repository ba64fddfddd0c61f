"""A text model with a memory: what the store holds is not generated again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from apm_lab.data.store import KEY_BYTES, Keeping
from apm_lab.errors import DataError
from apm_lab.language.protocols import Answer, GenerationCall, StreamsTexts, TextModel, Usage

__all__ = ["CallCounts", "StoredTexts", "streamed"]

_ENOUGH = 20  # answers, after which a model most of whose answers hold no text is taken to be set up wrongly


@dataclass(slots=True)
class CallCounts:
    """How many calls were asked for, how many of them the store did not hold, and the tokens of those.

    Tokens are None until a backend that counts them has answered. Bytes are of values that came from the store and went
    into it. `blank`: how many of the answers made hold no text.
    """

    asked: int = 0
    made: int = 0
    blank: int = 0
    tokens_in: int | None = None
    tokens_out: int | None = None
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def hits(self) -> int:
        """How many calls the store answered, or an equal call made with them."""
        return self.asked - self.made

    def spend(self, usage: Usage | None) -> None:
        """Count the tokens of one answer, where they are known."""
        if usage is not None:
            self.tokens_in = (self.tokens_in or 0) + usage.tokens_in
            self.tokens_out = (self.tokens_out or 0) + usage.tokens_out


class StoredTexts:
    """Answers generation calls from the shelf, and asks the model only for those that are missing."""

    def __init__(self, model: TextModel, shelf: Keeping[str], counts: CallCounts) -> None:
        self.model, self._counts = model, counts
        self._prefix = blake2b(digest_size=KEY_BYTES)
        self.key_header = ("generate", model.identity, model.engine, model.sampling)
        self.shelf = shelf.of(self.key_header, counts)
        self._prefix.update("\x1f".join(self.key_header).encode())

    def key(self, call: GenerationCall) -> bytes:
        """Return the call's store key (SPEC "Store key"): method, draw, role, run and address are not in it."""
        digest = self._prefix.copy()
        for message in call.messages:
            # With the length before it, no content can pass for the end of one turn and the start of another.
            turn = f"\x1e{message.role}\x1f{len(message.content)}\x1f{message.content}"
            digest.update(turn.encode("utf-8", "surrogatepass"))
        digest.update(f"\x1e{call.sample}".encode())
        return digest.digest()

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one text per call, in order; equal calls are made once, and each answer is kept when it comes.

        An answer without text is what the model said: kept, and counted as blank. Raises DataError where most answers
        are, where one is half of a surrogate pair, which is no text that could be kept, or calls are left unanswered.
        """
        keys = [self.key(call) for call in calls]
        texts = self.shelf.get(keys)
        missing = {key: call for key, call in zip(keys, calls, strict=True) if key not in texts}
        self._counts.asked += len(calls)
        if missing:
            fresh, answers = list(missing), dict[bytes, str]()
            for group in streamed(self.model, list(missing.values())):
                self._keep(fresh, group)
                answers.update((fresh[answer.place], answer.value) for answer in group)
            if len(answers) != len(fresh):
                raise DataError(f"{self.model.identity} gave {len(answers)} answers to {len(fresh)} calls")
            # Read back: when another job wrote the same key first, its text is the one that counts.
            texts |= answers | self.shelf.settled(fresh)
        return [texts[key] for key in keys]

    def _keep(self, keys: Sequence[bytes], group: Sequence[Answer[str]]) -> None:
        self._counts.made += len(group)
        self._counts.blank += sum(not answer.value.strip() for answer in group)
        for answer in group:
            self._counts.spend(answer.usage)
        if self._counts.made >= _ENOUGH and self._counts.blank > self._counts.made / 2:
            raise DataError(
                f"{self.model.identity} gave no text in {self._counts.blank} of {self._counts.made} answers; where it "
                "thinks first, set a larger max_tokens or turn thinking off, and see that answer_after is what its "
                "answers stand behind"
            )
        try:
            self.shelf.put((keys[answer.place], answer.value, answer.usage) for answer in group)
        except UnicodeEncodeError as fault:
            raise DataError(
                f"{self.model.identity} answered with half of a surrogate pair ({fault.object[fault.start]!a}), "
                "which can't be stored; expected valid Unicode"
            ) from fault


def streamed(model: TextModel, calls: Sequence[GenerationCall]) -> Iterator[Sequence[Answer[str]]]:
    """Yield a model's answers as they come; one that does not stream gives all of them at once."""
    if isinstance(model, StreamsTexts):
        yield from model.stream(calls)
    else:
        texts = model.generate(calls)
        if len(texts) != len(calls):  # nothing says which call each is for
            raise DataError(f"{model.identity} gave {len(texts)} answers to {len(calls)} calls")
        yield [Answer(place, text) for place, text in enumerate(texts)]
