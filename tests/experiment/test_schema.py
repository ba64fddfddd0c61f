"""Config values against annotations: what fits, what is refused, what a user reads."""

import pytest

from apm_lab.experiment.schema import faults
from apm_lab.experiment.signature import read_signature
from apm_lab.experiment.study_groups import groups_of_study

SOURCE = """
raise RuntimeError("imported")
class Typed:
    def __init__(self, value: {annotation}) -> None: ...
"""
REST = {"seed": 0, "outputs": "o", "store": {"path": "s"}, "plugins": ["typed"], "debug": False}


@pytest.fixture
def typed(tmp_path, monkeypatch):
    def annotated(annotation):
        (tmp_path / "typed.py").write_text(SOURCE.format(annotation=annotation))
        read_signature.cache_clear()

    monkeypatch.syspath_prepend(tmp_path)
    yield annotated
    read_signature.cache_clear()


def of(value):
    """Return the faults of group `method` when its class is given this value."""
    config = {**REST, "method": {"_target_": "typed.Typed", "value": value}}
    return [fault for fault in faults(config) if fault.startswith("method")]


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("int", [0, -3], [True, 1.5, "1", None, [1]]),
        ("float", [1, 0.5], [False, "x", None]),
        ("str", ["", "1"], [1, True, None]),
        ("bool", [True, False], [0, 1, "true", None]),
        ("int | None", [1, None], ["1", True]),
        ("'int | None'", [1, None], ["1", True]),
        ("Literal['a', 'b']", ["a"], ["c", None, 1]),
        ("Literal['a'] | float", ["a", 2], ["b"]),
        ("list[int]", [[], [1]], [[True], ["1"], 1, "ab"]),
        ("Sequence[str] | None", [["a"], None], ["a", [1]]),
        ("tuple[str, ...]", [["a"]], ["a"]),
        ("list", [[1, "a"]], [1]),
        ("Model", [{"_target_": "typed.Typed", "value": {"a": 1}}, {"a": 1}], [1, "x", None, [1]]),
        ("Model | None", [None], [1]),
        ("models.Model", [{"a": 1}], [None]),
        ("Any", [1, "x", None, [1]], []),
        ("typing.Any", [1, "x", None], []),
        ("Optional[int]", [1, None], []),
    ],
)
def test_values_and_annotations(typed, annotation, good, bad):
    typed(annotation)
    for value in good:
        assert of(value) == [], value
    for value in bad:
        (fault,) = of(value)
        assert fault.startswith(f"method.value={value!r}: expected "), value


@pytest.mark.parametrize(
    ("annotation", "words"),
    [("Literal['a', 'b'] | None", "a or b or null"), ("int | None", "int or null"), ("list[str]", "list[str]")],
)
def test_a_user_reads_words(typed, annotation, words):
    typed(annotation)
    assert of(1.5) == [f"method.value=1.5: expected {words}"]


def test_a_key_too_many_and_a_key_too_few(typed):
    typed("int")
    config = {**REST, "method": {"_target_": "typed.Typed", "valu": 1}}
    found = [fault for fault in faults(config) if fault.startswith("method")]
    assert found == ["method.valu: no such key; did you mean value?", "method.value: missing; expected int"]


def test_nested_nodes_are_checked(typed):
    typed("Model")
    inner = {"_target_": "typed.Typed", "value": 3}
    assert of({**inner, "value": inner}) == ["method.value.value.value=3: expected Model"]
    assert "typed.Type: module typed has no class" in of({"_target_": "typed.Type"})[0]


def test_every_missing_group_is_named():
    named = {fault.partition(":")[0] for fault in faults({**REST, "plugins": []})}
    assert named == set(groups_of_study({}))
