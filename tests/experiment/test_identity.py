"""A plug-in's source is part of a run's identity."""

import pytest

from apm_lab.experiment.identity import source_digest


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
