"""A transformers model in this process: it writes answers, and says how probable given ones are."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from random import Random
from typing import TYPE_CHECKING, Literal

from apm_lab.errors import ConfigError
from apm_lab.language.hf_weights import auto_device, auto_dtype, identity_of, locate, require_model
from apm_lab.language.in_order import in_order
from apm_lab.language.protocols import Answer, ChoiceCall, GenerationCall, Usage
from apm_lab.language.simulated.lm import SIMULATED_LM, make_once
from apm_lab.language.token_count import count_tokens

if TYPE_CHECKING:
    from apm_lab.language.hf_engine import Engine
    from apm_lab.language.hf_sampling import Sampling

__all__ = ["HfModel"]

_ENCODED = 4096  # chats in memory as tokens


class HfModel:
    """A language model of transformers; its weights are loaded at the first call, once for all roles that name them.

    Args:
        path_or_id: a folder with safetensors and a tokenizer, an offline model (`smollm2_135m`, `gemma3_270m`), a hub
            id, or `simulated_lm`.
        revision: of a hub id.
        dtype: `auto` computes in bfloat16 where the processor or GPU is made for it, else in float32.
        device: as torch names it; `auto` takes a GPU where there is one.
        temperature: 0 always takes the most probable token.
        top_p: only the fewest tokens whose probabilities reach it, (0, 1].
        max_tokens: the longest answer.
        repetition_penalty: 1 for none; above it, tokens that prompt or answer hold already become less probable.
        batch_size: chats that are answered side by side; no figure depends on it but by rounding.
        name: what tables call it.

    """

    engine = "hf"

    def __init__(
        self,
        path_or_id: str,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: str = "auto",
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 512,
        repetition_penalty: float = 1.0,
        batch_size: int = 64,
        name: str | None = None,
    ) -> None:
        self.name = name or path_or_id
        for key, value, sound in (
            ("temperature", temperature, temperature >= 0),
            ("top_p", top_p, 0 < top_p <= 1),
            ("max_tokens", max_tokens, max_tokens >= 1),
            ("repetition_penalty", repetition_penalty, repetition_penalty > 0),
            ("batch_size", batch_size, batch_size >= 1),
        ):
            if not sound:
                raise ConfigError(
                    f"{self.name}: {key}={value} is out of range; temperature >= 0, 0 < top_p <= 1, "
                    "repetition_penalty > 0, max_tokens and batch_size >= 1"
                )
        self._place, self._revision = path_or_id, revision
        self._dtype, self._device = dtype, device
        self._temperature, self._top_p, self._max_tokens = float(temperature), float(top_p), max_tokens
        self._repetition_penalty, self._batch_size = float(repetition_penalty), batch_size

    def ready(self) -> None:
        """Return nothing where all files are there; ConfigError names what is missing and the command that gets it.

        The simulated language model is no download: it is trained where it is missing.
        """
        if self._place == SIMULATED_LM:
            make_once()
        require_model(self._place, self._revision)

    def count_tokens(self, texts: Sequence[str]) -> int | None:
        """Return the tokens of these texts together, by the tokenizer alone."""
        return count_tokens(locate(self._place), texts)

    @property
    def identity(self) -> str:
        """Model id and revision; of a folder its name and the digest of its files."""
        return identity_of(self._place, self._revision)

    @property
    def sampling(self) -> str:
        """Canonical JSON of what changes the answers: the sampling values and the type computed in."""
        values = {
            "dtype": auto_dtype(self._dtype, auto_device(self._device)),
            "max_tokens": self._max_tokens,
            "repetition_penalty": self._repetition_penalty,
            "temperature": self._temperature,
            "top_p": self._top_p,
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one text per call, in order."""
        return in_order(self.stream(calls))

    def stream(self, calls: Sequence[GenerationCall]) -> Iterator[list[Answer[str]]]:
        """Yield answers in groups as they are finished; a call with `choices` gets one of them.

        What is drawn for a call depends on its chat and sample alone, not on its neighbours; those move the figures
        it is drawn by no further than rounding does.

        Raises ConfigError where a chat is longer than the context leaves room for, before anything is written.
        """
        written = [place for place, call in enumerate(calls) if not call.choices]
        prompts = self._engine.encoder.prompts([calls[place].messages for place in written], self._max_tokens)
        for group in self._written([calls[place] for place in written], prompts):
            yield [Answer(written[answer.place], answer.value, answer.usage) for answer in group]
        chosen = [place for place, call in enumerate(calls) if call.choices]
        for group in self._chosen([calls[place] for place in chosen]):
            yield [Answer(chosen[answer.place], answer.value, answer.usage) for answer in group]

    def log_probabilities(self, calls: Sequence[ChoiceCall]) -> Iterator[list[Answer[tuple[float, ...]]]]:
        """Yield the log-probability of each whole answer, the sum over its tokens, at temperature 1, in any order."""
        from apm_lab.language.hf_choices import Asked, answer_log_probabilities

        if not calls:
            return
        answers = self._answer_tokens([answer for call in calls for answer in call.answers])
        for start in range(0, len(calls), _ENCODED):
            part = calls[start : start + _ENCODED]
            tokens = [[answers[answer] for answer in call.answers] for call in part]
            room = max(len(answer) for each in tokens for answer in each)
            prompts = self._engine.encoder.prompts([call.messages for call in part], room)
            asked = [Asked(prompt, each) for prompt, each in zip(prompts, tokens, strict=True)]
            for group in answer_log_probabilities(self._engine.network, asked, self._batch_size):
                yield [
                    Answer(start + place, values, Usage(len(prompts[place]), sum(map(len, tokens[place]))))
                    for place, values in group
                ]

    @property
    def most_tokens(self) -> int:
        """The longest answer."""
        return self._max_tokens

    def opened(self) -> Engine:
        """Return the network with its tokenizer, loaded at the first call."""
        return self._engine

    def answers_to(self, prompts: Sequence[Sequence[int]], seeds: Sequence[bytes]) -> list[str]:
        """Return one answer per prompt of tokens, drawn with this model's sampling values by a stream from its seed."""
        from apm_lab.language.hf_generation import written_answers

        engine, texts = self._engine, [""] * len(prompts)
        for group in written_answers(engine.network, prompts, seeds, self._values, engine.ends, self._batch_size):
            for place, tokens in group:
                texts[place] = engine.text(tokens)
        return texts

    def begins(self, answer: str, longer: str) -> bool:
        """Whether the tokens of `answer` begin those of `longer`: then P(answer) holds P(longer)."""
        tokens = self._answer_tokens([answer, longer])
        return tokens[longer][: len(tokens[answer])] == tokens[answer]

    def _written(self, calls: Sequence[GenerationCall], prompts: Sequence[list[int]]) -> Iterator[list[Answer[str]]]:
        from apm_lab.language.hf_generation import written_answers

        engine, seeds = self._engine, [_seed(call) for call in calls]
        for group in written_answers(engine.network, prompts, seeds, self._values, engine.ends, self._batch_size):
            yield [
                Answer(place, engine.text(tokens), Usage(len(prompts[place]), len(tokens))) for place, tokens in group
            ]

    def _chosen(self, calls: Sequence[GenerationCall]) -> Iterator[list[Answer[str]]]:
        """Draw from the choices' own probabilities, made to sum to one."""
        from apm_lab.language.hf_choices import without_longer
        from apm_lab.language.hf_sampling import chosen_answer

        asked = [ChoiceCall(call.messages, call.choices or ()) for call in calls]
        known = self._answer_tokens([option for each in asked for option in each.answers]) if calls else {}
        for group in self.log_probabilities(asked):
            answers = []
            for found in group:
                call, options = calls[found.place], asked[found.place].answers
                tokens = [known[option] for option in options]
                option = chosen_answer(without_longer(found.value, tokens), self._values, Random(_seed(call)))
                read = found.usage.tokens_in if found.usage else 0
                answers.append(Answer(found.place, options[option], Usage(read, len(tokens[option]))))
            yield answers

    @property
    def _values(self) -> Sampling:
        from apm_lab.language.hf_sampling import Sampling

        return Sampling(self._temperature, self._top_p, self._repetition_penalty, self._max_tokens)

    @property
    def _engine(self) -> Engine:
        from apm_lab.language.hf_engine import load_engine

        device = auto_device(self._device)
        return load_engine(self._place, self._revision, auto_dtype(self._dtype, device), device)

    def _answer_tokens(self, answers: Sequence[str]) -> dict[str, list[int]]:
        different = list(dict.fromkeys(answers))
        return dict(zip(different, self._engine.encoder.answers(different), strict=True))


def _seed(call: GenerationCall) -> bytes:
    """Return the seed of a call's random stream: its chat and its sample."""
    parts = [f"{turn.role}\x1f{len(turn.content)}\x1f{turn.content}" for turn in call.messages]
    text = "\x1e".join([*parts, str(call.sample), *(call.choices or ())])
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
