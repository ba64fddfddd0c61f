"""The simulated language model's place on this machine: trained at first use, once for all runs."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from apm_lab.data.prompts import prompts_digest, read_prompts
from apm_lab.language.alone import alone
from apm_lab.language.offline_models import models_folder
from apm_lab.language.simulated.constants import package_digest

__all__ = ["SIMULATED_LM", "make_once", "simulated_lm_folder"]

SIMULATED_LM = "simulated_lm"
_MADE_OF = ("responder.py", "phrases.yaml", "constants.yaml", "lm_corpus.py", "lm_training.py")


def simulated_lm_folder() -> Path:
    """Return where the model lies or will lie: its name holds the digest of all that it is made of."""
    return models_folder() / f"{SIMULATED_LM}-{package_digest(*_MADE_OF)}-{prompts_digest(read_prompts(None))[:8]}"


def make_once() -> Path:
    """Return the model's folder, trained now where it is not there: whole or not at all, by one process at a time."""
    folder = simulated_lm_folder()
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with alone(folder.parent / f".{SIMULATED_LM}.lock"):
        if not folder.is_dir():
            for left in folder.parent.glob(f".{SIMULATED_LM}-*.part"):  # of a killed process
                shutil.rmtree(left, ignore_errors=True)
            _make(folder)
    return folder


def _make(folder: Path) -> None:
    from apm_lab.language.simulated.lm_training import make_simulated_lm

    started = time.monotonic()
    print(f"{SIMULATED_LM} is trained once on this machine, which takes some minutes", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix=f".{SIMULATED_LM}-", suffix=".part", dir=folder.parent) as made:
        make_simulated_lm(Path(made) / "model", say=lambda text: print(f"  {text}", file=sys.stderr))
        (Path(made) / "model").rename(folder)
    print(f"{SIMULATED_LM} took {time.monotonic() - started:.0f} s and lies in {folder}", file=sys.stderr)
