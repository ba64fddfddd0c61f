"""A finished run, read back from its folder and printed as it was at its end."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from apm_lab.errors import DataError
from apm_lab.experiment.run_folder import DrawParts, RunFolder
from apm_lab.judging.health import Health
from apm_lab.report.personalization import summarise
from apm_lab.report.table import print_summary
from apm_lab.studies.personalization import PersonalizationDraws

__all__ = ["is_audit", "print_finished", "read_config", "read_manifest"]


def print_finished(console: Console, folder: Path) -> None:
    """Print the table and notes of the run in `folder`; DataError when no finished run is there, or it is damaged."""
    manifest = read_manifest(folder)
    if is_audit(manifest):
        from apm_lab.experiment.finished_audits import print_finished_audit

        print_finished_audit(console, folder, manifest)
        return
    parts = DrawParts(RunFolder(folder))
    try:
        arms = [parts.load(draw) for draw in range(len(manifest["blocks"]))]
        stored = manifest["judge_health"]
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in stored.items()}
        health = Health(**fields)
        title, method, seed = manifest["title"], manifest["method"], manifest["seed"]
    except (KeyError, TypeError) as fault:
        raise DataError(f"{folder / 'manifest.json'}: written by another apm_lab, or damaged ({fault})") from None
    found = [done for done in arms if done is not None]
    if len(found) < len(arms):
        raise DataError(f"{folder / 'parts'}: {len(arms) - len(found)} of {len(arms)} mapping draws can't be read")
    draws = PersonalizationDraws(method, found, np.array(manifest["blocks"], dtype=np.int64), (), health, ())
    print_summary(console, title, summarise(draws, seed), health)
    console.print(f"results: {folder}", soft_wrap=True, markup=False)


def is_audit(manifest: Mapping[str, Any]) -> bool:
    """Return whether a manifest is that of an audit of a reward model."""
    return manifest.get("study") == "perspectives"


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of the run in `folder`; DataError when no finished run is there, or it is damaged."""
    path = folder / "manifest.json"
    if not path.is_file():
        raise DataError(f"{folder} holds no finished run (no manifest.json)")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as fault:
        raise DataError(f"{path} can't be read: {fault}") from None
    if not isinstance(content, dict) or not isinstance(content.get("figures"), dict):
        raise DataError(f"{path} is no manifest of a run")
    return content


def read_config(folder: Path) -> dict[str, Any]:
    """Return the run's config as Hydra composed it, resolved where everything that it refers to is here."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    path = folder / ".hydra" / "config.yaml"
    try:
        config = OmegaConf.load(path)
        try:
            plain: Any = OmegaConf.to_container(config, resolve=True)
        except OmegaConfBaseException:  # an environment variable, say, which only the run had
            plain = OmegaConf.to_container(config, resolve=False)
    except (OSError, YAMLError, UnicodeDecodeError, OmegaConfBaseException) as fault:
        raise DataError(f"{path} can't be read: {' '.join(str(fault).split())}") from None
    if not isinstance(plain, dict):
        raise DataError(f"{path} is no configuration of a run")
    return plain
