"""A run's folder from Python: tables of pandas, the summary, claims, and how it compares."""

import os
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import harness
from harness.claims.document import ClaimsDocument, of_table
from harness.definitions.matrix import Cell
from harness.doctor import Finding
from harness.doctor.document import DoctorDocument, of_findings
from harness.figures.comparison_document import ComparisonDocument
from harness.files.document import Document
from harness.files.journal import Entry, Journal
from harness.files.records import ResultsError
from harness.results.document import RunDocument
from tests.noting import CountingReporter
from tests.results_fixture import quick_cells, write_journal, write_manifest, write_raw, write_reduced

CHECKOUT = Path(__file__).parent.parent
CELL = Cell.parse("i1-t2-r150-p100-v2008")
SLOW = 0.5


@pytest.fixture
def raw_run(tmp_path: Path) -> harness.Run:
    """One cell that was measured and not reduced."""
    folder = tmp_path / "20261121-0900-embedded"
    write_manifest(folder)
    write_raw(folder, [CELL])
    write_journal(folder, [(CELL.id, 1, "completed")])
    return harness.Run(folder)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[harness.Run, harness.Run]:
    """24 cells in three blocks each, and again at half the rate."""
    folder = tmp_path_factory.mktemp("runs")
    a = write_reduced(folder / "before", quick_cells(), blocks=3)
    b = write_reduced(folder / "after", quick_cells(), blocks=3, factor=SLOW)
    return harness.Run(a), harness.Run(str(b))


def test_cells_is_a_row_per_cell_and_block(runs: tuple[harness.Run, harness.Run]) -> None:
    cells = runs[0].cells()
    assert len(cells) == 24 * 3
    assert cells.equals(pd.read_parquet(runs[0].folder / "reduced" / "cells.parquet"))


def test_calls_is_every_call_of_the_cells_that_count(raw_run: harness.Run) -> None:
    calls = raw_run.calls()
    files = list((raw_run.folder / "raw" / "calls").iterdir())
    assert len(calls) == sum(len(pd.read_parquet(path)) for path in files) > 0
    write_journal(raw_run.folder, [(CELL.id, 1, "failed")])
    with pytest.raises(ResultsError, match="no completed cell"):
        raw_run.calls()


def test_a_kind_without_records_has_its_columns_and_no_rows(raw_run: harness.Run) -> None:
    for path in (raw_run.folder / "raw" / "latches").iterdir():
        path.unlink()
    latches = raw_run.table("raw/latches")
    assert latches.empty and "latch_class" in latches


def test_a_table_that_does_not_exist_is_named_with_the_nearest(raw_run: harness.Run) -> None:
    with pytest.raises(harness.UsageFailure, match=r"no table 'gian'; nearest: gain"):
        raw_run.table("gian")
    with pytest.raises(harness.UsageFailure, match=r"no table 'raw/call'; nearest: raw/calls"):
        raw_run.table("raw/call")
    with pytest.raises(harness.UsageFailure, match=r"no reduced/cells\.parquet: run `harness reduce"):
        raw_run.cells()


def test_a_report_is_drawn_where_it_is_missing_or_older_than_a_table(
    raw_run: harness.Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, drawn = raw_run.folder / "report.html", []

    def draw(self: harness.Run, *, progress: bool) -> list[Path]:
        drawn.append(self.folder)
        page.touch()
        return [page]

    monkeypatch.setattr(harness.Run, "draw", draw)
    table = raw_run.folder / "reduced" / "cells.parquet"
    table.parent.mkdir()
    table.touch()
    assert raw_run.report() == raw_run.report() == page
    assert len(drawn) == 1
    newer_ns = page.stat().st_mtime_ns + 1_000_000_000
    os.utime(table, ns=(newer_ns, newer_ns))
    assert raw_run.report() == page
    assert len(drawn) == 2


def test_the_outcome_counts_what_the_journal_says_last(raw_run: harness.Run) -> None:
    (raw_run.folder / "journal.jsonl").unlink()
    journal = Journal(raw_run.folder / "journal.jsonl")
    for cell, attempt, became in (("a", 1, "failed"), ("b", 1, "completed"), ("a", 2, "completed"), ("c", 1, "failed")):
        journal.append(Entry(cell, attempt, became, f"reason of {cell}", at="", run=1))  # type: ignore[arg-type]
    outcome = raw_run.outcome
    assert (outcome.total, outcome.completed, outcome.failed, outcome.reason) == (3, 2, 1, "reason of c")


@pytest.mark.drawing
def test_a_run_with_half_the_rate_is_slower(
    runs: tuple[harness.Run, harness.Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = runs[0].compare(runs[1], tmp_path / "compared")
    whole = found.verdicts.set_index("group").iloc[0]
    assert whole.verdict == "slower" and whole.ratio == pytest.approx(SLOW, rel=0.03)
    assert whole.ratio_low < SLOW < whole.ratio_high
    assert len(found.cells) == 24 and set(found.files) <= set((tmp_path / "compared").iterdir())
    assert capsys.readouterr() == ("", "")


def test_the_summary_has_a_row_per_cell(runs: tuple[harness.Run, harness.Run]) -> None:
    assert sorted(runs[0].summary().table["cell"]) == sorted(cell.id for cell in quick_cells())


def test_claims_are_a_row_each_with_a_verdict(runs: tuple[harness.Run, harness.Run]) -> None:
    progress = CountingReporter()
    claims = runs[0].claims(progress=progress)
    assert (progress.of, progress.counted) == (f"{len(claims)} claims", list(range(1, len(claims) + 1)))
    assert set(claims.verdict) <= {"holds", "fails", "inconclusive", "not measured"}
    assert "not SQL Server" in runs[0].origin()[0]


def test_a_run_for_other_programs(raw_run: harness.Run, runs: tuple[harness.Run, harness.Run]) -> None:
    """Of a run that was not reduced it has what the journal says; of a reduced one what the tables say as well."""
    Journal(raw_run.folder / "journal.jsonl").append(Entry(CELL.id, 1, "failed", "lost a message", "", 1, block=2))
    document = raw_run.document()
    assert [(cell.block, cell.state, cell.state_reason) for cell in document.cells][1:] == [
        (2, "failed", "lost a message")
    ]
    assert document.cells[0].latency_us_p50 is document.cells[1].processed_per_s is None
    assert (document.completed, document.failed, document.conclusion) == (1, 1, "")

    table = runs[0].cells()
    for block, rows in table.groupby("block"):
        write_journal(runs[0].folder, [(cell_id, 1, "completed") for cell_id in rows.cell_id], int(str(block)))
    document = runs[0].document()
    assert RunDocument.model_validate_json(document.as_json()) == document
    assert [cell.latency_us_p99 for cell in document.cells] == table.sort_values(
        "block", kind="stable"
    ).latency_us_p99.tolist()
    assert (document.conclusion, len(document.cells)) == (runs[0].summary().conclusion, 72)


def test_claims_and_findings_for_other_programs(runs: tuple[harness.Run, harness.Run]) -> None:
    table = runs[0].claims()
    document = of_table(table)
    assert ClaimsDocument.model_validate_json(document.as_json()) == document
    assert [claim.claim for claim in document.claims] == table.claim.tolist()
    assert any(claim.measured is None for claim in document.claims)

    finding = Finding("error", "target", "broker", "is off", "turn it on")
    assert not of_findings([finding]).can_run and of_findings([replace(finding, severity="warning")]).can_run
    assert DoctorDocument.model_validate_json(of_findings([finding]).as_json()).findings == [finding]


@pytest.mark.parametrize("kind", [RunDocument, ComparisonDocument, ClaimsDocument, DoctorDocument])
def test_the_readme_names_every_field_of_a_document(kind: type[Document]) -> None:
    text = (CHECKOUT / "results" / "README.md").read_text(encoding="utf-8")
    schema = kind.model_json_schema()
    for part in (schema, *schema["$defs"].values()):
        assert all(f"`{name}`" in text for name in part["properties"])
