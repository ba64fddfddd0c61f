"""Rewriter, responder and judge know nothing of each other."""

import ast
import re
from importlib.resources import files

import pytest

from apm_lab.language.simulated.constants import load_yaml
from apm_lab.language.simulated.wordings import catalogue

PACKAGE = files("apm_lab")
WORLD = "apm_lab.language.simulated"
PARTS = {
    "judge": {"judge"},
    "responder": {"responder", "style_reading"},
    "rewriter": {"rewriter", "wordings"},
    "summariser": {"summariser", "style_reading"},
}


def source(module):
    """Return the source of a module of the package, or None where the name is no module."""
    place = PACKAGE.joinpath(*module.split(".")[1:])
    for file in (place.joinpath("__init__.py"), place.parent.joinpath(f"{place.name}.py")):
        if file.is_file():
            return file.read_text(encoding="utf-8")
    return None


def imported(text):
    """Return every name that a source text imports from the package: modules, and names in them that may be modules."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports are not followed here"
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.split(".")[0] == "apm_lab"}


def reached_from(module):
    """Return the modules of the package that a module imports, directly or not, itself among them."""
    reached, queue = set(), [module]
    while queue:
        name = queue.pop()
        text = source(name)
        if text is not None and name not in reached:
            reached.add(name)
            queue += imported(text)
    return reached


@pytest.mark.parametrize("part", PARTS)
def test_rewriter_responder_and_judge_import_nothing_from_each_other(part):
    reached = {name.removeprefix(f"{WORLD}.") for name in reached_from(f"{WORLD}.{part}") if name.startswith(WORLD)}
    assert part in reached
    assert reached <= PARTS[part] | {"constants", WORLD}


@pytest.mark.parametrize(
    "line",
    [
        f"from {WORLD}.judge import read_styles",
        f"from {WORLD} import judge",
        f"import {WORLD}.judge as other",
        f"def late():\n    from {WORLD} import judge",
    ],
)
def test_a_planted_import_is_seen(line):
    assert f"{WORLD}.judge" in imported(line)


def test_each_reads_its_own_words_only():
    modules = ("judge", "responder", "style_reading", "summariser", "rewriter", "wordings", "reader")
    texts = {name: source(f"{WORLD}.{name}") for name in modules}
    read = {name: set(re.findall(r'load_yaml\("(\w+\.yaml)"\)', text)) for name, text in texts.items()}
    assert read == {
        "judge": {"lexicon.yaml"},
        "responder": {"phrases.yaml"},
        "style_reading": {"phrases.yaml"},
        "summariser": set(),
        "rewriter": set(),
        "wordings": {"wordings.yaml"},
        "reader": set(),
    }
    for name, text in texts.items():
        calls = text.count("load_yaml(")
        assert calls == len(re.findall(r'load_yaml\("', text)), name  # no computed file name
        assert not re.search(r"read_text|read_bytes|open\(|files\(|__import__|import_module", text), name
    contents = [
        PACKAGE.joinpath("language", "simulated", file).read_bytes() for file in sorted(set.union(*read.values()))
    ]
    assert len(set(contents)) == 3


def tokens(text):
    return tuple(re.findall(r"[a-z0-9]+", str(text).lower().replace("'", "")))


def test_no_word_list_is_shared():
    phrases, lexicon = load_yaml("phrases.yaml"), load_yaml("lexicon.yaml")
    styled = {tokens(text) for key in lexicon for side in phrases[key].values() for text in side}
    sentences = styled | {tokens(text) for text in (*phrases["opening"], *phrases["content"])}
    clauses = {tokens(clause) for wording in catalogue() for clause in wording.clauses}
    markers = {tokens(marker) for sides in lexicon.values() for side in sides.values() for marker in side}
    assert min(len(styled), len(clauses), len(markers)) > 300
    assert not sentences & clauses
    assert not sentences & markers
    assert not clauses & markers
