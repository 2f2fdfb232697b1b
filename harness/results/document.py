"""A run for other programs, which `--json` of `harness run` and `harness matrix` writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field

from harness.definitions.measures import QUANTILES
from harness.files import journal
from harness.files.document import Document, number

if TYPE_CHECKING:
    from harness.results.run import Run

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


def of_run(run: Run) -> RunDocument:
    """Describe a run that has just been measured, or a reduced one."""
    outcome, manifest = run.outcome, run.manifest
    columns: dict[tuple[str, int], Any] = {}
    if is_reduced := (run.folder / "reduced").is_dir():
        columns = {(row["cell_id"], row["block"]): row for row in run.cells().to_dict("records")}
    last = {(entry.cell, entry.block): entry for entry in journal.read(run.folder / journal.NAME)}
    if outcome.measured and not is_reduced and len(last) == 1:
        columns = dict.fromkeys(last, outcome.measured.columns)
    summary = run.summary() if outcome.completed and columns else None
    cells = []
    for (cell, block), entry in last.items():
        is_failed, numbers = entry.outcome == FAILED, columns.get((cell, block), {})
        cells.append(
            CellNumbers(
                cell_id=cell,
                block=block,
                state=FAILED if is_failed else entry.state,
                state_reason=entry.reason if is_failed else entry.state_reason,
                sent_per_s=None if is_failed else entry.sent_per_s,
                processed_per_s=None if is_failed else entry.processed_per_s,
                **{name: number(numbers.get(name)) for name in LATENCIES},
            )
        )
    return RunDocument(
        run_id=manifest["run_id"],
        lab=manifest["lab"],
        folder=run.place,
        completed=outcome.completed,
        failed=outcome.failed,
        conclusion=summary.conclusion if summary else "",
        findings=summary.findings if summary else [],
        cells=cells,
    )
