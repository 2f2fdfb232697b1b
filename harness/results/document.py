"""A run for other programs, which `--json` of `harness run` and `harness matrix` writes."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, Field

from harness.definitions.measures import QUANTILES
from harness.files.document import Document, number
from harness.files.journal import Entry
from harness.results.summary import Summary

LATENCIES = tuple(f"latency_us_{name}" for name in QUANTILES)
FAILED = "failed"


class CellNumbers(BaseModel):
    """One cell in one block. Numbers are those of the reduced table `cells`, under the names that they have there."""

    cell_id: str
    block: int
    state: str = Field(description="only numbers of a valid cell count; failed: it has none")
    state_reason: str
    sent_per_s: float | None
    processed_per_s: float | None
    latency_us_p50: float | None = Field(description="of a call of the send procedure; null if not reduced")
    latency_us_p95: float | None
    latency_us_p99: float | None = Field(description="null below 1,000 calls")


class RunDocument(Document):
    run_id: str
    lab: str = Field(description="whose numbers these are: sqlserver, embedded, simulated")
    folder: str
    completed: int = Field(description="cells, one that runs in several blocks counts in each")
    failed: int
    conclusion: str = Field(description="what the run found, in a sentence; empty if it was not reduced")
    findings: list[str] = Field(description="which cells do not count and why, and what speaks for the conclusion")
    cells: list[CellNumbers]


def of_run(
    place: str,
    manifest: Mapping[str, Any],
    entries: Iterable[Entry],
    numbers: Mapping[tuple[str, int], Mapping[str, Any]],
    summary: Summary | None,
) -> RunDocument:
    """Describe a run by its journal and, of each cell by id and block, its row of the table `cells`."""
    last = {(entry.cell, entry.block): entry for entry in entries}
    cells = [_cell(entry, numbers.get(key, {})) for key, entry in last.items()]
    failed = [cell for cell in cells if cell.state == FAILED]
    return RunDocument(
        run_id=manifest["run_id"],
        lab=manifest["lab"],
        folder=place,
        completed=len(cells) - len(failed),
        failed=len(failed),
        conclusion=summary.conclusion if summary else "",
        findings=summary.findings if summary else [],
        cells=cells,
    )


def _cell(entry: Entry, computed: Mapping[str, Any]) -> CellNumbers:
    has_failed = entry.outcome == FAILED
    return CellNumbers(
        cell_id=entry.cell,
        block=entry.block,
        state=FAILED if has_failed else entry.state,
        state_reason=entry.reason if has_failed else entry.state_reason,
        sent_per_s=None if has_failed else entry.sent_per_s,
        processed_per_s=None if has_failed else entry.processed_per_s,
        **{name: number(computed.get(name)) for name in LATENCIES},
    )
