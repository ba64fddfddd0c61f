"""Whatever is written on the command line: exit code 0, or 2 and a message, and never a traceback."""

import contextlib
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apm_lab.errors import ConfigError
from apm_lab.experiment.cli import main
from apm_lab.experiment.config_folder import config_folder
from apm_lab.experiment.preflight import require_sound
from apm_lab.experiment.schema import completed

GROUPS = sorted(folder.name for folder in config_folder().iterdir() if folder.is_dir())
OPTIONS = sorted({file.stem for file in config_folder().glob("*/*.yaml")})
KEYS = [
    *("seed", "outputs", "store.path", "plugins", "users.train", "users.balance", "pool.size", "pool.attributes"),
    *("mapping.draws", "mapping.kind", "mapping.kind._target_", "method._target_", "method.label", "judge.model"),
    *("judge.model.score", "router.learning_rate", "router.vocab_size", "trainer.max_epochs", "dataset.path"),
    *("logger.tags", "store", "users", "hydra.job.name", "hydra.verbose", "hydra.sweeper.params", "defaults"),
]
WORDS = [
    *("true", "null", "nan", "-inf", "0", "-3", "1e400", "1_000", "0x10", "09", "1.", "'", '"', "\\", "''", "'a b'"),
    *("${seed}", "${users.train}", "${nope}", "${oc.env:HOME}", "${oc.env:NOPE}", "${now:%Y}", "${users}", "${.train}"),
    *(
        "${",
        "$",
        "???",
        "[",
        "]",
        "{",
        "}",
        ",",
        ":",
        "a:b",
        "a=b",
        "=",
        "#",
        "!!python/none",
        "&a",
        "*a",
        "@",
        "%",
        "|",
    ),
    *("os.system", "apm_lab.records.Style", "apm_lab.methods.routing.Routing", "choice(1,2)", "range(1,4)", "glob(*)"),
    *("sort(3,1)", "int(x)", "str([1])", "tag(a,b)", "interval(0,1)", "shuffle(1,2)", "extend_list(1)", "json(x)"),
    *("\u2028", "\x00", "\x1b[31m", "\udcff", "é", "x" * 300, "9" * 40, "[" * 60, "(" * 60, "${" * 30),
]
EDITS = st.tuples(st.integers(0, 40), st.sampled_from(["", ".", "=", "@", "/", " ", "~", "x", "\u00e9", "["]))


@st.composite
def edited(draw, texts):
    """Return one of the texts, often with a character taken out and another put in."""
    text = draw(texts)
    for place, put in draw(st.lists(EDITS, max_size=2)):
        at = place % (len(text) + 1)
        text = text[:at] + put + text[at + draw(st.integers(0, 1)) :]
    return text


def nested(inner):
    joined = st.lists(inner, max_size=3).map(", ".join)
    pairs = st.lists(st.tuples(inner, inner).map(":".join), max_size=2).map(",".join)
    return joined | joined.map("[{}]".format) | pairs.map("{{{}}}".format) | inner.map("'{}'".format)


VALUES = st.recursive(
    st.sampled_from([*WORDS, *OPTIONS]) | st.integers().map(str) | st.text(max_size=6), nested, max_leaves=5
)
NAMES = st.sampled_from([*KEYS, *GROUPS])
WHOLE = st.tuples(st.sampled_from(["", "", "", "", "+", "++"]), NAMES, VALUES)
BROKEN = st.tuples(st.sampled_from(["", "+", "~"]), edited(NAMES), edited(VALUES))
OVERRIDES = (WHOLE | WHOLE | WHOLE | BROKEN).map(lambda parts: f"{parts[0]}{parts[1]}={parts[2]}")
FLAGS = st.sampled_from(["--resolve", "-r", "--package", "--cfg=hydra", "--cfg", "--config-dir=nowhere", "--", "-"])
ARGUMENTS = st.lists(OVERRIDES, min_size=1, max_size=3)


def stops(job, _console):
    require_sound(completed(job.config))
    raise ConfigError("composed and sound")


@pytest.fixture(scope="module", autouse=True)
def empty_folder(tmp_path_factory):
    """No run begins: what is composed goes through the pre-flight and stops there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("grammar"))
        patch.setattr("apm_lab.experiment.run.execute", stops)
        yield


def only_messages(arguments):
    shown, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(told):
        code = main(arguments)
    assert code in (0, 2), (code, told.getvalue())
    assert "Traceback" not in told.getvalue()
    if code == 2:  # a job of a grid fails in the grid's table
        said = shown.getvalue() if "--multirun" in arguments else ""
        assert (said + told.getvalue()).strip() not in ("", "error:"), arguments


@given(arguments=ARGUMENTS, flags=st.lists(FLAGS, max_size=1))
@settings(max_examples=30)
def test_composing(arguments, flags):
    only_messages([*arguments, "--cfg", "job", *flags])


@given(arguments=ARGUMENTS)
@settings(max_examples=25)
def test_resolving_and_checking(arguments):
    only_messages([*arguments, "logger=csv"])


@given(argument=OVERRIDES)
@settings(max_examples=6)
def test_a_grid(argument):
    only_messages([argument, "logger=csv", "seed=1,2", "--multirun"])


@given(arguments=st.lists(st.text(max_size=8) | FLAGS, max_size=3))
@settings(max_examples=60)
def test_any_words(arguments):
    only_messages(arguments)
