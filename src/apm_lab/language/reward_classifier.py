"""Reward models that are sequence classifiers: transformers' own, and four with a class of their own."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from apm_lab.errors import ConfigError
from apm_lab.language.hf_place import place_of
from apm_lab.language.hf_weights import load_as, locate, require_model
from apm_lab.language.protocols import Answer
from apm_lab.language.reward_architectures import architecture_named, architecture_of
from apm_lab.language.reward_calls import Gathering, in_parts
from apm_lab.language.reward_model import RewardCall
from apm_lab.language.reward_templates import RewardTexts, TemplateReader, require_template

if TYPE_CHECKING:
    from apm_lab.language.classifier_scores import ClassifierScores
    from apm_lab.language.reward_heads import DecoderScores

__all__ = ["RewardClassifier"]


class RewardClassifier:
    """The score that a sequence classifier gives a prompt with an answer.

    A decoder reads what texts begin with in common once, and its score is that of the last token; an encoder reads
    batches of about the same length.

    Args:
        path_or_id: a folder with safetensors or a hub id.
        template: `raw` reads `prompt + answer`; `chat` makes the prompt the user's turn and the answer the
            assistant's by the tokenizer's chat template; `pair` is a pair of texts; else a text that holds {prompt}
            and {answer}, read with the special tokens that the tokenizer adds.
        revision: of a hub id.
        dtype: `auto` computes in bfloat16 where the processor or GPU is made for it, else in float32.
        device: as torch names it; `auto` takes a GPU where there is one.
        batch_size: texts side by side; no figure depends on it but by rounding.
        name: what tables call it.
        architecture: `beaver`, `ultrarm`, `starling` or `oasst`; None: as config.json says, else a sequence classifier
            of transformers.
        label: which number is the reward, where the model gives several.
        tokenizer: the folder or hub id of the tokenizer, where the model has none.
        max_tokens: a longer text loses what stands behind its first token; None refuses one that is longer than the
            model's context.

    """

    engine = "hf"

    def __init__(
        self,
        path_or_id: str | None,
        template: str,
        revision: str | None = None,
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        device: str = "auto",
        batch_size: int = 64,
        name: str | None = None,
        architecture: Literal["beaver", "ultrarm", "starling", "oasst"] | None = None,
        label: int | None = None,
        tokenizer: str | None = None,
        max_tokens: int | None = None,
    ) -> None:
        self._place = place_of(path_or_id, revision, dtype, device, batch_size)
        self.name = name or self._place.path_or_id
        require_template(self.name, template)
        if architecture is not None:
            architecture_named(architecture)
        if max_tokens is not None and max_tokens < 1:
            raise ConfigError(f"{self.name}: max_tokens={max_tokens} must be at least 1")
        self._template, self._batch_size, self._max_tokens = template, batch_size, max_tokens
        self._architecture, self._label, self._tokenizer = architecture, label, tokenizer

    def ready(self) -> None:
        """Return nothing where all files are there; ConfigError names what is missing and the command that gets it."""
        require_model(self._place.path_or_id, self._place.revision, tokenizer=self._tokenizer is None)

    @property
    def identity(self) -> str:
        """Model id and revision; of a folder its name and the digest of its files."""
        return self._place.identity

    @property
    def sampling(self) -> str:
        """Canonical JSON of what changes the rewards beside the model."""
        values = {
            "architecture": self._architecture,
            "dtype": self._place.dtype,
            "kind": "classifier",
            "label": self._label,
            "max_tokens": self._max_tokens,
            "template": self._template,
            "tokenizer": self._tokenizer,
        }
        return json.dumps(values, sort_keys=True, separators=(",", ":"))

    def rewards(self, calls: Sequence[RewardCall]) -> Iterator[list[Answer[tuple[float, ...]]]]:
        """Yield the score of each answer, in any order of calls.

        Raises ConfigError where a text is longer than the model's context, or the model gives no single number;
        DataError where its weights are not those of its architecture.
        """
        if not calls:
            return
        rater, context = self._rater, self._max_tokens
        known = rater.context if context is None else min(context, rater.context or context)
        reader = TemplateReader(rater.tokenizer, self._template, known, context is not None, self.name)
        for offset, part in in_parts(calls):
            texts = reader.read(part)
            places = [(call, answer) for call, each in enumerate(part) for answer in range(len(each.answers))]
            tokens = [0] * len(part)
            for (call, _), row in zip(places, texts.rows, strict=True):
                tokens[call] += len(row)
            gathering = Gathering(part, offset, tokens)
            for rows, scores in rater.scores(texts, self._batch_size):
                scored = zip((places[row] for row in rows), scores, strict=True)
                if done := gathering.add((call, answer, score) for (call, answer), score in scored):
                    yield done

    @property
    def _rater(self) -> _Rater:
        place = self._place
        return _loaded(
            place.folder_or_id,
            place.revision,
            place.dtype,
            place.device,
            self._architecture,
            self._label,
            self._tokenizer,
            self.name,
        )


@dataclass(frozen=True, slots=True)
class _Rater:
    """A loaded model, its tokenizer, the most tokens that it reads, and whether it wants the segments of a pair."""

    model: DecoderScores | ClassifierScores
    tokenizer: Any
    context: int | None
    segments: bool = False

    def scores(self, texts: RewardTexts, batch_size: int) -> Iterator[tuple[list[int], list[float]]]:
        from apm_lab.language.classifier_scores import ClassifierScores

        if isinstance(self.model, ClassifierScores):
            return self.model.scores(texts.rows, batch_size, texts.kinds if self.segments else None)
        return self.model.scores(texts.rows, batch_size)


@cache
def _loaded(
    place: str,
    revision: str | None,
    dtype: str,
    device: str,
    architecture: str | None,
    label: int | None,
    tokenizer: str | None,
    name: str,
) -> _Rater:
    from apm_lab.language.reward_weights import read_config

    require_model(place, revision, tokenizer=False)
    words = locate(tokenizer) if tokenizer else None
    known = architecture or architecture_of(read_config(place, revision))
    if known is not None:
        return _of_architecture(known, place, revision, dtype, device, label, words)
    return _of_transformers(place, revision, dtype, device, label, words, name)


def _of_architecture(
    known: str, place: str, revision: str | None, dtype: str, device: str, label: int | None, words: str | None
) -> _Rater:
    from transformers import AutoTokenizer

    from apm_lab.language.hf_weights import quiet_loading
    from apm_lab.language.reward_weights import fetched, load_scores

    folder = fetched(place, revision, tokenizer=words is None)
    with quiet_loading():
        try:
            tokenizer = AutoTokenizer.from_pretrained(words or str(folder))
        except Exception as fault:  # each library has its own for the same thing
            raise ConfigError(f"{words or folder}: its tokenizer can't be loaded: {fault}") from fault
    unknown = tokenizer.unk_token_id
    made = load_scores(folder, architecture_named(known), dtype, device, unknown, label or 0)
    return _Rater(made, tokenizer, made.body.context)


def _of_transformers(
    place: str, revision: str | None, dtype: str, device: str, label: int | None, words: str | None, name: str
) -> _Rater:
    from transformers import AutoModelForSequenceClassification

    from apm_lab.language.classifier_scores import ClassifierScores, decoder_scores, is_causal, label_of

    kind = "sequence classifier"
    loaded = load_as(AutoModelForSequenceClassification, kind, place, revision, dtype, device, tokenizer=words)
    model, tokenizer = loaded.model, loaded.tokenizer
    config = model.config.get_text_config()
    context = getattr(config, "max_position_embeddings", None)
    wanted = label_of(name, model.config.num_labels, label)
    causal = is_causal(model, device)
    if causal and (made := decoder_scores(model, wanted, device)) is not None:
        return _Rater(made, tokenizer, context)
    pad = config.pad_token_id if config.pad_token_id is not None else tokenizer.pad_token_id
    segments = "token_type_ids" in inspect.signature(type(model).forward).parameters
    # A head that is not known may look for the last token in its own way: such a text is read without padding.
    return _Rater(ClassifierScores(model, wanted, pad or 0, device, alone=causal), tokenizer, context, segments)
