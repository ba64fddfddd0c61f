"""What a run says about itself: identity, versions, store keys, calls, times (SPEC 5)."""

from __future__ import annotations

import platform
import resource
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from apm_lab import __version__
from apm_lab.data.store import VERSION, Store
from apm_lab.experiment.build import Data
from apm_lab.experiment.build_method import ROLES
from apm_lab.experiment.identity import source_digest
from apm_lab.experiment.job import Job
from apm_lab.experiment.progress import StageProgress
from apm_lab.studies.personalization import Personalization, PersonalizationDraws

__all__ = ["manifest", "model_name", "package_versions", "peak_mb"]

_PACKAGES = (
    "torch",
    "lightning",
    "transformers",
    "tokenizers",
    "scikit-learn",
    "numpy",
    "scipy",
    "statsmodels",
    "hydra-core",
)


def manifest(
    job: Job,
    config: Mapping[str, Any],
    identity: str,
    data: Data,
    study: Personalization,
    draws: PersonalizationDraws,
    progress: StageProgress,
    store: Store,
    figures: Mapping[str, float | None],
    seconds: float,
) -> dict[str, Any]:
    """Return the content of `manifest.json`; `report` prints a finished run from it and the run's parts."""
    label = f" label={config['method']['label']}" if "label" in config["method"] else ""
    return {
        "title": f"{study.method_name}{label} on {model_name(config)}",
        "identity": identity,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "figures": dict(figures),
        "method": study.method_name,
        "overrides": job.overrides,
        "seed": config["seed"],
        "versions": {"apm_lab": __version__, "python": platform.python_version(), **package_versions()},
        "source_digest": source_digest(),
        "data": {
            "digest": data.digest,
            "prompts": len(data.prompts),
            "sources": Counter(prompt.source for prompt in data.prompts),
            "licences": Counter(prompt.licence for prompt in data.prompts),
        },
        "blocks": draws.blocks.tolist(),
        "judge_health": asdict(draws.health),
        # A million keys say less than what all of a role's begin with; the rest of a key is the call itself.
        "store": {
            "path": str(store.path),
            "version": VERSION,
            "key_headers": {
                **{role: list(getattr(study, role).key_header) for role in ROLES},
                **{role: list(asked.key_header) for role, asked in study.method_asks.items()},
            },
        },
        # Tokens are counted where a backend reports them; simulated models have none.
        "calls": {
            role: {**asdict(count), "hits": count.hits, "misses": count.made} for role, count in progress.counts.items()
        },
        "stages": progress.stages,
        "wall_s": round(seconds, 3),
        "peak_mb": round(peak_mb(), 1),
    }


def model_name(config: Mapping[str, Any]) -> str:
    """Return what tables call the model under evaluation."""
    model = config["model"]
    return str(model.get("name") or model.get("model") or model["_target_"])


def peak_mb() -> float:
    """Return this process's peak memory so far, in MB of 2^20 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def package_versions() -> dict[str, str]:
    """Return the versions of the libraries that figures depend on."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
