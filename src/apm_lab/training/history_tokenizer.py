"""Histories in, token ids out: a tokenizer trained on the histories themselves or a pretrained one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from apm_lab.errors import DataError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerBase

__all__ = ["HistoryTokenizer", "TokenizerKind", "shared_cut"]

TokenizerKind = Literal["word", "bpe"]

PAD, UNKNOWN, CLS, SEP = "[PAD]", "[UNK]", "[CLS]", "[SEP]"


def shared_cut(lengths: Sequence[int], budget: int) -> int:
    """Return the largest L with `sum(min(length, L)) <= budget`: the longest prompts are cut first, none drops out."""
    left, open_prompts = budget, len(lengths)
    for length in sorted(lengths):
        if length * open_prompts > left:
            return max(left, 0) // open_prompts
        left -= length
        open_prompts -= 1
    return max(lengths, default=0)


@dataclass(frozen=True, slots=True)
class HistoryTokenizer:
    """A `tokenizers` backend and the ids that frame a history: `start`, prompt, `end`, prompt, `end`, ...

    `start` and `end` are empty for a vocabulary without such tokens.
    """

    backend: Tokenizer
    pad_id: int
    start: tuple[int, ...]
    end: tuple[int, ...]

    @classmethod
    def train(
        cls, histories: Iterable[tuple[str, ...]], kind: TokenizerKind, vocab_size: int, min_frequency: int
    ) -> HistoryTokenizer:
        """Return a tokenizer of at most `vocab_size` entries that occur `min_frequency` times in the histories.

        Text is lower-cased after NFKC; words and runs of punctuation are the units (`word`) or are split further
        (`bpe`). Words outside a `word` vocabulary share one entry. (WordPiece is not offered: its trainer in
        tokenizers 0.23 gives another vocabulary each time.)
        """
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

        kinds: dict[str, tuple[Any, Any]] = {
            "word": (models.WordLevel, trainers.WordLevelTrainer),
            "bpe": (models.BPE, trainers.BpeTrainer),
        }
        model, trainer = kinds[kind]
        backend = Tokenizer(model(unk_token=UNKNOWN))
        backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
        backend.pre_tokenizer = pre_tokenizers.Whitespace()
        specials = [PAD, UNKNOWN, CLS, SEP]
        settings = {"vocab_size": vocab_size, "min_frequency": min_frequency, "special_tokens": specials}
        texts = (text for history in histories for text in history)
        backend.train_from_iterator(texts, trainer(show_progress=False, **settings))
        return cls.of_trained(backend)

    @classmethod
    def of_trained(cls, backend: Tokenizer) -> HistoryTokenizer:
        """Return the tokenizer around a backend that `train` made."""
        pad, start, end = (_id_of(backend, token) for token in (PAD, CLS, SEP))
        return cls(backend, pad, (start,), (end,))

    @classmethod
    def of_pretrained(cls, tokenizer: PreTrainedTokenizerBase) -> HistoryTokenizer:
        """Return the tokenizer around a transformers one; DataError when it has no `tokenizers` backend."""
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise DataError(f"{tokenizer.name_or_path}: {type(tokenizer).__name__} has no fast (tokenizers) backend")
        backend.no_truncation()
        backend.no_padding()

        def first(*names: str) -> int | None:
            ids = (getattr(tokenizer, f"{name}_token_id") for name in names)
            return next((found for found in ids if found is not None), None)

        start, end, pad = first("cls", "bos"), first("sep", "eos"), first("pad", "eos", "unk")
        one = [() if found is None else (found,) for found in (start, end)]
        return cls(backend, 0 if pad is None else pad, one[0], one[1])

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(self.backend.get_vocab_size(with_added_tokens=True))

    def encode(self, histories: Sequence[tuple[str, ...]], max_tokens: int) -> tuple[list[list[int]], int]:
        """Return one id list per history, never empty and at most `max_tokens` long, and how many were cut."""
        texts = [text for history in histories for text in history]
        encoded = iter(self.backend.encode_batch_fast(texts, add_special_tokens=False))
        rows, cut = [], 0
        for history in histories:
            prompts = [next(encoded).ids for _ in history]
            budget = max_tokens - len(self.start) - len(self.end) * len(prompts)
            longest = shared_cut([len(prompt) for prompt in prompts], budget)
            cut += any(len(prompt) > longest for prompt in prompts)
            row = list(self.start)
            for prompt in prompts:
                row += [*prompt[:longest], *self.end]
            rows.append(row[:max_tokens] or [self.pad_id])
        return rows, cut

    def to_json(self) -> str:
        """Return the backend as the text of a `tokenizer.json`."""
        return str(self.backend.to_str())

    def frame(self) -> dict[str, Any]:
        """Return what `to_json` leaves out, as plain values for `of_frame`."""
        return {"pad_id": self.pad_id, "start": list(self.start), "end": list(self.end)}

    @classmethod
    def of_frame(cls, text: str, frame: dict[str, Any]) -> HistoryTokenizer:
        """Return the tokenizer that `to_json` and `frame` described."""
        from tokenizers import Tokenizer

        return cls(Tokenizer.from_str(text), frame["pad_id"], tuple(frame["start"]), tuple(frame["end"]))


def _id_of(backend: Tokenizer, token: str) -> int:
    found = backend.token_to_id(token)
    if found is None:
        raise DataError(f"the tokenizer has no {token}")
    return int(found)
