"""A user's mistake is one message that names the thing and the nearest valid choice, and exit code 2."""

import gzip
import re
import sqlite3

import pytest

from apm_lab.experiment.cli import main

SMALL = ["+scale=smoke", "router=ngrams", "logger=csv"]
MISTAKES = {
    "unknown option": (["method=routng"], r"method=routng: no such option; did you mean routing"),
    "unknown group": (["metod=routing"], r"metod: no such key; did you mean method"),
    "unknown key": (["trainer.max_epoch=3"], r"trainer\.max_epoch: no such key; did you mean max_epochs"),
    "unknown key with plus": (["+trainer.max_epoch=3"], r"trainer\.max_epoch: no such key; did you mean max_epochs"),
    "unknown key of a method": (["method.rank=-1"], r"method\.rank: no such key"),
    "unknown top key": (["sed=1"], r"sed: no such key; did you mean seed"),
    "word for a number": (["seed=abc"], r"seed='abc': expected int"),
    "word for a count": (["users.train=many"], r"users\.train='many': expected int"),
    "boolean for a count": (["users.train=true"], r"users\.train=True: expected int"),
    "value for a group": (["users.train=2.5"], r"users\.train=2\.5: expected int"),
    "bad choice": (["method.label=margn"], r"method\.label='margn': expected margin or two_sided"),
    "no test users": (["users.test=0"], r"users\.test=0: expected at least 1"),
    "no training users": (["users.train=0"], r"users\.train=0: routing learns"),
    "negative users": (["users.train=-3"], r"users\.train=-3: expected at least 0"),
    "k larger than N": (["users.active=9"], r"users\.active=9: .* N=3"),
    "N larger than M": (
        ["pool.attributes=[verbose,anxious,unpolished]", "pool.principles=[persuasive,casual]"],
        r"needs N <= M, the pool has N=3 attributes and M=2 principles",
    ),
    "empty principles": (["pool.principles=[]"], r"pool\.principles is empty"),
    "duplicate principles": (
        ["pool.principles=[casual,Casual,gentle]", "pool.attributes=[verbose]"],
        r"pool\.principles names 'casual' twice",
    ),
    "unknown attribute": (["pool.attributes=[verbos]", "pool.principles=[casual]"], r"verbos.*did you mean verbose"),
    "unknown principle": (["pool.principles=[casul]", "pool.attributes=[verbose]"], r"casul.*did you mean casual"),
    "pool too large": (["pool.size=11"], r"pool\.size=11: Table 6 has 10"),
    "odd antithetic draws": (["mapping.design=antithetic", "mapping.draws=3"], r"antithetic needs an even number"),
    "latin draws": (["mapping.design=latin", "mapping.draws=4"], r"latin needs a multiple of 6"),
    "latin gaussian": (["mapping=gaussian", "mapping.design=latin"], r"mapping\.design=latin is for"),
    "router shape": (["router=modernbert_small", "router.heads=7"], r"router\.hidden_size is 128, expected a multiple"),
    "router share": (["router=modernbert_small", "router.warmup_fraction=2"], r"router\.warmup_fraction"),
    "baseline": (
        ["router=modernbert_small", "study.baseline_router=ngram"],
        r"baseline_router=ngram.*did you mean ngrams",
    ),
    "missing data": (["dataset.path=no_such.jsonl"], r"dataset\.path=no_such\.jsonl: there is no such file"),
    "foreign target": (["method._target_=os.system"], r"_target_ os\.system is refused: package 'os'"),
    "misspelt class": (
        ["method._target_=apm_lab.methods.routing.Routng"],
        r"no class or function 'Routng'; did you mean",
    ),
    "missing plug-in": (
        ["method._target_=not_there.Method", "plugins=[not_there]"],
        r"package 'not_there' is not installed here",
    ),
    "plug-in without a name": (["plugins=['']"], r"plugins: '' is no package's name"),
    "plug-in with a path": (["plugins=[../x]"], r"plugins: '\.\./x' is no package's name"),
    "plug-in with a dot": (["plugins=[a.b]"], r"plugins: 'a\.b' is no package's name"),
    "plug-in that is a number": (["plugins=[1]"], r"plugins=\[1\]: expected list\[str\]"),
    "plug-in that is a list": (["plugins=[[toys]]"], r"plugins=\[\['toys'\]\]: expected list\[str\]"),
    "plug-ins that are a word": (["plugins=toys"], r"plugins='toys': expected list\[str\]"),
    "plug-in of Python's": (["plugins=[os]", "method._target_=os.system"], r"plugins: 'os' is a part of Python"),
    "plug-in that is main": (["plugins=[__main__]"], r"plugins: '__main__' is no package's name"),
    "plug-in that is a library": (["plugins=[torch]"], r"plugins: 'torch' may be named anyway"),
    "target that is no name": (["method._target_=apm_lab..methods"], r"'apm_lab\.\.methods' is no dotted name"),
    "target with a path": (["method._target_='apm_lab/../x.Y'"], r"is no dotted name"),
    "null for a group": (
        ["method=null"],
        r"method=null: no such option; one of: nonpersonalized, rag_exemplar, rag_summary, routing",
    ),
    "boolean for a group": (["users=true"], r"users=true: no such option; one of: default"),
    "null in a grid": (["method=routing,null", "-m"], r"method=null: no such option"),
    "misspelt option in a grid": (
        ["method=routing,routng", "-m"],
        r"method=routng: no such option; did you mean routin",
    ),
    "no group": (["~method"], r"method: expected one of the group's options"),
    "null for an object": (["mapping.kind=null"], r"mapping\.kind=None: expected MappingKind"),
    "values for an object": (["judge.model=3"], r"judge\.model=3: expected ScoreModel"),
    "key of the store": (["store.pth=x"], r"store\.pth: no such key; did you mean path"),
    "type of the store": (["store.path=3"], r"store\.path=3: expected str"),
    "negative retries": (["judge.retries=-1"], r"judge\.retries=-1: expected at least 0"),
    "interpolation": (["seed=${nope}"], r"Interpolation key 'nope' not found"),
    "no value": (["seed"], r"'seed' is no override; expected key=value"),
    "no key": (["=3"], r"'=3' is no override; expected key=value"),
    "flag without its flag": (["--resolve"], r"--resolve goes with --cfg"),
    "misspelt class of a library": (
        ["method._target_=torch.nn.Linera", "~method.label"],
        r"torch\.nn has no 'Linera'; did you mean Linear",
    ),
    "misspelt module of a library": (["method._target_=torch.nnn.Linear"], r"there is no module torch\.nnn"),
    "key that a library does not take": (["method._target_=torch.nn.Linear"], r"unexpected keyword argument 'label'"),
    "no method": (
        ["method._target_=apm_lab.records.Style", "~method.label", "method.principle=0", "method.direction=1"],
        r"method\._target_=apm_lab\.records\.Style is no method",
    ),
    "no finite number": (["router.penalty=nan"], r"router\.penalty=nan: expected float"),
    "infinite noise": (["model.noise=inf"], r"model\.noise=inf: expected float"),
    "precision": (["router=modernbert_small", "trainer.precision=foo"], r"trainer: .*[Pp]recision"),
    "accelerator": (["router=modernbert_small", "trainer.accelerator=foo"], r"trainer: .*accelerator"),
    "divergence": (["router=modernbert_small", "router.learning_rate=1e30"], r"the router diverged"),
    "grammar": (["users.train=[1,2"], r"."),
    "flag": (["--multrun"], r"no such flag --multrun; did you mean --multirun"),
    "verb": (["lst"], r"'lst' is neither a verb nor an override.*did you mean list"),
}


@pytest.fixture(autouse=True)
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def fails(arguments, capfd):
    """Return the one message of a command that must fail by the user's mistake."""
    assert main(arguments) == 2
    shown = capfd.readouterr()
    assert shown.err.startswith("error: ")
    assert shown.err.count("error: ") == 1
    assert "Traceback" not in shown.err + shown.out
    return shown.err


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name, capfd):
    arguments, message = MISTAKES[name]
    assert re.search(message, fails(arguments if name == "verb" else [*SMALL, *arguments], capfd), re.DOTALL)


BATCH = "_target_: apm_lab.language.batch.BatchModel, model: served"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["model=batch", "generator=batch", "model.folder=batch", "generator.folder=./batch/"],
            r"(model|generator)\.folder=\S+ is the folder of (model|generator) too; expected one for each role",
        ),
        (
            ["rewriter=batch", "rewriter.folder=there", "judge=openai", f"judge.model.model={{{BATCH}, folder: here}}"],
            r"judge\.model\.model\.folder=here is the folder of rewriter too",
        ),
    ],
)
def test_two_roles_with_one_batch_folder_are_refused(arguments, message, capfd, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to("there")
    named = [f"{role}.model=served" for role in ("model", "generator", "rewriter") if f"{role}=batch" in arguments]
    assert re.search(message, fails([*SMALL, *arguments, *named], capfd))
    assert not list(tmp_path.rglob("calls.jsonl"))


def test_all_faults_stand_in_one_message(capfd):
    text = fails([*SMALL, "seed=abc", "trainer.max_epoch=3", "users.train=many", "method.label=margn"], capfd)
    assert "4 faults" in text
    for part in ("seed='abc'", "trainer.max_epoch", "users.train='many'", "method.label='margn'"):
        assert part in text


def test_all_contradictions_stand_in_one_message(capfd):
    text = fails([*SMALL, "users.test=0", "pool.size=0", "judge.retries=-1", "dataset.path=no_such"], capfd)
    assert "4 faults" in text


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "cut.jsonl.gz",
            gzip.compress(b'{"text": "What is this?"}\n' * 50, mtime=0)[:-20],
            r"cut\.jsonl\.gz is no complete gzip",
        ),
        ("not.jsonl.gz", b"hello", r"not\.jsonl\.gz is no complete gzip file"),
        ("line.jsonl", b'{"text": "one"}\nnot json\n', r"line\.jsonl, line 2: not a JSON object"),
        ("row.jsonl", b'{"text": "one"}\n[1]\n', r"row\.jsonl, line 2: expected a JSON object, found list"),
        ("field.jsonl", b'{"txt": "one"}\n', r"field\.jsonl, line 1: no field 'text'"),
        ("type.jsonl", b'{"text": 5}\n', r"type\.jsonl, line 1: field 'text' is '5'"),
        ("empty.jsonl", b"", r"empty\.jsonl holds no usable prompt"),
        ("few.jsonl", b'{"text": "one"}\n{"text": "two"}\n', r"too few"),
        ("nc.jsonl", b'{"text": "one", "license": "CC-BY-NC-4.0"}\n', r"dataset\.noncommercial=true"),
    ],
)
def test_damaged_data_is_named(name, content, message, capfd, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert re.search(message, fails([*SMALL, f"dataset.path={name}"], capfd))


def test_a_store_of_another_version_is_refused_by_name(capfd, tmp_path):
    connection = sqlite3.connect(tmp_path / "old.sqlite")
    connection.executescript(
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT); INSERT INTO meta VALUES ('version', '0')"
    )
    connection.commit()
    connection.close()
    text = fails([*SMALL, "store.path=old.sqlite"], capfd)
    assert re.search(r"old\.sqlite was written by store version 0, this apm_lab reads version 2", text)


def test_a_file_that_is_no_store_is_refused(capfd, tmp_path):
    (tmp_path / "notes.txt").write_text("hello " * 100)
    assert "notes.txt" in fails([*SMALL, "store.path=notes.txt"], capfd)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["store.path=folder", "store.machine=taken"], r"store folder/taken/texts\.sqlite: (File e|Not a d)"),
        (["store.path=file/store"], r"store file/store: (Not a directory|File exists)"),
        (["store.path=''"], r"store\.path='': expected a path"),
        (["store.path=half.sqlite"], r"store half\.sqlite is a file; a store is a folder"),
        (["outputs=file"], r"file can't be written"),
        (["outputs=file/deep"], r"file/deep can't be written"),
        (["outputs=''", "store.path=x.sqlite"], r"outputs='': expected a path"),
        (["dataset.path=folder"], r"dataset\.path=folder: there is no such file"),
        (["dataset.path=''"], r"dataset\.path=: there is no such file"),
        (["trainer.checkpoint_folder=file", "router=modernbert_small"], r"file.*(Not a directory|File exists)"),
        (["outputs='  '", "store.path=x.sqlite"], r"outputs='  ': expected a path"),
        (["outputs=file", "-m"], r"file"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(arguments, message, capfd, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "taken").write_text("")
    (tmp_path / "file").write_text("")
    (tmp_path / "half.sqlite").write_bytes(b"SQLite format 3\x00" + bytes(range(256)) * 20)
    assert re.search(message, fails([*SMALL, *arguments], capfd))


def test_debug_shows_the_traceback():
    from apm_lab.errors import ConfigError

    with pytest.raises(ConfigError):
        main([*SMALL, "users.test=0", "debug=true"])
