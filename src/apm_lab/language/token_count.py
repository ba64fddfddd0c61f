"""How many tokens texts have, by the tokenizer that lies beside a model's weights."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["count_tokens"]


def count_tokens(folder: str, texts: Sequence[str]) -> int | None:
    """Return the tokens of these texts together, None where the folder has no `tokenizer.json`; no weights are read."""
    file = Path(folder) / "tokenizer.json"
    if not file.is_file():
        return None
    return sum(len(encoding.ids) for encoding in _tokenizer(str(file)).encode_batch(list(texts)))


@cache
def _tokenizer(file: str) -> Any:  # noqa: ANN401 (the tokenizers library's own type)
    from tokenizers import Tokenizer

    return Tokenizer.from_file(file)
