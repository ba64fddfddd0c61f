"""Every notebook runs from top to bottom, and is kept without outputs."""

import warnings
from pathlib import Path

import nbformat
import pytest

FILES = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_notebook_runs(file, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the Jupyter packages' own
        from nbclient import NotebookClient

        notebook = nbformat.read(file, as_version=4)
        client = NotebookClient(
            notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
        )
        client.execute()
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "routing_oracle" in text
    assert "200 users;" in text
    assert (tmp_path / "outputs").is_dir()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_notebook_is_kept_without_outputs(file):
    cells = nbformat.read(file, as_version=4).cells
    assert all(not cell.get("outputs") for cell in cells)
