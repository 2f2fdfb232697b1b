"""Tables of steps: a row for each completed attempt, from its raw records, however often the run was resumed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from harness.definitions.matrix import Visit
from harness.definitions.measures import COLUMNS_READ, Measures
from harness.figures import build
from harness.files import journal, records
from harness.output.reporting import Reporter
from harness.run import run_folder
from harness.run.arrangement import Item

AnyStep = TypeVar("AnyStep", bound=Item)


@dataclass(frozen=True)
class RecordedAttempt:
    """The raw records of one completed attempt."""

    folder: Path
    visit: Visit
    attempt: int

    @cached_property
    def cell(self) -> dict[str, Any]:
        """The row of the record `cells`."""
        [row] = self.table("cells").to_pylist()
        return dict(row)

    def table(self, kind: str) -> pa.Table:
        """Return the records of a kind, without columns that no measure needs."""
        columns = list(COLUMNS_READ[kind]) if kind in COLUMNS_READ else None
        path = records.raw_path(self.folder, kind, self.visit, self.attempt)
        paths = [path] if path.exists() else sorted(path.parent.glob(f"{path.stem}-*.parquet"))
        return pa.concat_tables(pq.read_table(path, columns=columns) for path in paths)

    def measures(self, *, in_batch: bool = False) -> Measures:
        """Measure as the attempt itself did."""
        measures = Measures(self.cell, in_batch=in_batch)
        for kind in COLUMNS_READ:
            if (self.folder / "raw" / kind).exists():
                table = self.table(kind)
                measures.add(kind, {name: table[name].to_numpy() for name in table.column_names})
        return measures


def evaluate(
    results: Path,
    steps: Sequence[AnyStep],
    row: Callable[[AnyStep, RecordedAttempt], Mapping[str, Any]],
    write: Callable[[Path, Sequence[Mapping[str, Any]]], Path],
    reporter: Reporter,
) -> None:
    """Write the table of the completed steps, draw the figure, and report their paths; do nothing without any."""
    manifest = run_folder.read_manifest(results)
    attempts = {(entry.cell, entry.block): entry.attempt for entry in journal.completed(results / journal.NAME)}
    rows = [
        {
            "run_id": manifest["run_id"],
            "lab": manifest["lab"],
            **row(step, RecordedAttempt(step.folder(results), step.visit, attempts[step.id, step.block])),
        }
        for step in steps
        if (step.id, step.block) in attempts
    ]
    if not rows:
        return
    reporter.note(f"table: {write(results, rows)}")
    for figure in build.draw(results, progress=reporter):
        if figure.suffix == ".png":
            reporter.note(f"figure: {figure}")
