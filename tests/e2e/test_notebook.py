"""The notebook of results/, executed as a user executes it: a Jupyter kernel, the embedded lab, Spark."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = [pytest.mark.process, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "results" / "from-python.ipynb"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory, warm_jvm: dict[str, str]) -> dict[str, str]:
    """What each cell of code printed and showed, by its first line; a cell that fails raises CellExecutionError."""
    folder = tmp_path_factory.mktemp("notebook")
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(folder)}}).execute(env=warm_jvm)
    return {
        cell.source.splitlines()[0]: "".join(
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in cell.outputs
        )
        for cell in notebook.cells
        if cell.cell_type == "code"
    }


def of(said: dict[str, str], beginning: str) -> str:
    [text] = [text for line, text in said.items() if line.startswith(beginning)]
    return text


@pytest.mark.thorough
def test_the_lab_answers(said: dict[str, str]) -> None:
    assert "target MySSBLabTestQueue 16" in of(said, "with harness.open_lab")


@pytest.mark.thorough
def test_the_cells_have_their_numbers_in_pandas_and_in_spark(said: dict[str, str]) -> None:
    for threads in (1, 4):
        for ratio in (1, 150):
            for beginning in ("small =", "before.cells()", "calls =", "records =", "after ="):
                assert f"i1-t{threads}-r{ratio}-p100-v2008" in of(said, beginning)


@pytest.mark.thorough
def test_a_mistake_is_one_line(said: dict[str, str]) -> None:
    assert of(said, "try:") == "--mesure: unknown key; nearest: measure\n"


def test_the_notebook_is_kept_without_outputs() -> None:
    """So that a change of it is read as text, and no number of the embedded lab is taken for a result."""
    for cell in nbformat.read(NOTEBOOK, as_version=4).cells:
        assert not cell.get("outputs")


def test_git_keeps_the_notebook() -> None:
    assert f"!results/{NOTEBOOK.name}" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
