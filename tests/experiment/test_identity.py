"""A plug-in's source is part of a run's identity."""

import pytest

from apm_lab.experiment.identity import source_digest, with_their_imports


@pytest.mark.parametrize("place", ["single.py", "whole/__init__.py", "bare/part.py"])
def test_a_changed_source_changes_the_digest(place, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    package = place.partition("/")[0].removesuffix(".py")
    file = tmp_path / place
    file.parent.mkdir(exist_ok=True)
    file.write_text("x = 1\n")
    source_digest.cache_clear()
    before = source_digest(package)
    file.write_text("x = 2\n")
    assert source_digest(package) == before  # read once a process
    source_digest.cache_clear()
    assert source_digest(package) != before


def test_modules_that_a_plug_in_imports_belong_to_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    files = {
        "plug_a.py": "import json, numpy as np\nfrom plug_b.deep import sign\nimport apm_lab.records\n",
        "plug_b/deep.py": "def sign():\n    import plug_c\n",
        "plug_c.py": "import plug_a\nfrom missing_everywhere import nothing\n",
        "plug_broken.py": "def (",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert with_their_imports(["plug_a"]) == ["plug_a", "plug_b", "plug_c"]
    assert with_their_imports(["plug_broken"]) == ["plug_broken"]
    assert with_their_imports([]) == []
