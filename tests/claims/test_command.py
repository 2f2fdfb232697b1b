"""`harness claims` and the report: the verdicts that a user sees."""

import pytest

from harness import cli
from harness.definitions.matrix import all_cells
from tests.results_fixture import quick_cells, write_reduced

pytestmark = pytest.mark.drawing


@pytest.fixture
def flat(tmp_path):
    return write_reduced(tmp_path / "flat", all_cells())


def printed(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main(arguments)
    out, error = capsys.readouterr()
    return end.value.code, out, error


def test_the_table_names_its_lab_and_ends_with_the_count(capsys, flat):
    code, out, _ = printed(["claims", str(flat)], capsys)
    lines = out.splitlines()
    assert code == 0
    assert lines[0].startswith("Embedded lab, not SQL Server")
    assert "not measured" in lines[-1] and "not known from one run" in lines[-1] and "predicted" not in lines[-1]
    assert "over 18,000" in out and "holds from 18,000 messages/s" in " ".join(out.split())


def test_markdown_is_the_table_alone(capsys, flat):
    code, out, _ = printed(["claims", str(flat), "--markdown"], capsys)
    assert code == 0
    assert out.startswith("| the paper says | its number | this run | provenance | verdict |\n|---|---|---|---|---|\n")
    assert {line[0] for line in out.splitlines()} == {"|"}


def test_claims_of_a_model_are_labelled_as_such(capsys, tmp_path):
    run = write_reduced(tmp_path / "run", quick_cells(), shape="paper", lab="simulated")
    code, out, _ = printed(["claims", str(run)], capsys)
    assert code == 0
    lines = out.splitlines()
    assert "model" in lines[0] and "not SQL Server" in lines[0]
    assert "are predicted" in lines[-1] and "by construction" in out


def test_a_run_that_was_not_reduced_is_refused_in_one_line_with_the_remedy(capsys, tmp_path):
    run = write_reduced(tmp_path / "a run", quick_cells())
    (run / "reduced" / "cells.parquet").unlink()
    code, _, error = printed(["claims", str(run)], capsys)
    assert code == 2
    assert error == f"harness: {run} has no reduced/cells.parquet: run `harness reduce '{run}'` first\n"
