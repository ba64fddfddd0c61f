"""A GGUF file as a folder that loads in a second: safetensors in bfloat16, configuration and tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["convert"]


def convert(gguf: Path, target: Path) -> None:
    """Write the model and tokenizer of a GGUF file into `target`; needs package `gguf`.

    The quantised weights are undone exactly in float32 and then rounded to bfloat16, which is finer than they were.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from apm_lab.language.hf_weights import quiet_loading

    given: dict[str, Any] = {"gguf_file": gguf.name, "local_files_only": True}
    with quiet_loading():
        tokenizer = AutoTokenizer.from_pretrained(str(gguf.parent), **given)
        model = AutoModelForCausalLM.from_pretrained(str(gguf.parent), dtype=torch.float32, **given)
        # The undone model still calls itself quantised, and a quantised one refuses to be written.
        model.hf_quantizer, model.is_quantized = None, False
        if hasattr(model.config, "quantization_config"):
            del model.config.quantization_config
        model.to(torch.bfloat16).save_pretrained(target)
        tokenizer.save_pretrained(target)
