"""What observing costs: one cell again and again on the embedded lab, with and without its observers.

Without them nothing samples the instances in the measured window; before it, both kinds of cell are settled in the same
way. Each block has one cell of each kind, directly one after the other, and each kind is first in half of the blocks.
The ratio is the rate with observers divided by that without; its interval is over the blocks.
"""

import math
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.definitions import inference
from harness.definitions.matrix import Cell, Visit
from harness.experiments.lab_choice import OnServers
from harness.files import records
from harness.lab import interruption
from harness.lab.opening import select_lab
from harness.observe.observers import Observed, TargetProgress
from harness.output.reporting import Reporter
from harness.run.arrangement import Item
from harness.run.attempt import Measured
from harness.run.attempt import Observers as ObserversOfACell
from harness.run.equipment import Preflight
from harness.run.phases import Phases
from harness.run.testbed import LabTestbed


@dataclass(frozen=True)
class Size:
    cell: str
    blocks: int
    measure_s: float
    settle_s: float  # at most


FULL = Size("i1-t10-r150-p100-v2008", 10, 5.0, 2.5)
SMALLEST = Size("i1-t1-r1-p100-v2008", 1, 1.0, 2.0)  # on a busy machine no message is processed within 0.2 s


class WithoutWindow:
    """Observers that read only what settling needs."""

    def __init__(self, observers: ObserversOfACell) -> None:
        self._observers = observers

    def begin(self, count: int) -> None:
        self._observers.begin(0)

    def target_progress(self) -> TargetProgress:
        return self._observers.target_progress()

    def window_begins(self) -> None: ...

    def window_ends(self) -> None: ...

    def changes(self, *, timeout_s: float) -> dict[str, dict[str, list[Any]]]:
        return {}

    def end(self) -> Observed:
        return Observed({"samples": records.columns("samples", [])}, [])

    def close(self) -> None:
        self._observers.close()


class SwitchedTestbed(LabTestbed):
    """A lab whose observers can be left out of a cell."""

    has_observers = True

    def run(self, cell: Item, attempt: int, run: int, phases: Phases) -> Measured:
        parts = self._stages[cell.cell.server_version].equipment.parts
        assert parts is not None
        observers = parts.observers
        parts.observers = observers if self.has_observers else WithoutWindow(observers)
        try:
            return super().run(cell, attempt, run, phases)
        finally:
            parts.observers = observers


def log_ratios(size: Size, folder: Path) -> Iterator[float]:
    """Yield a log ratio per block."""
    cell = Cell.parse(size.cell)
    selection = select_lab({"lab": "embedded", "measure": size.measure_s, "settle": size.settle_s, "results": folder})
    results = OnServers(selection.settings, selection.topology).open_results([cell])
    reporter = Reporter()
    testbed = SwitchedTestbed(selection.topology, Preflight(selection.settings, [cell], results, reporter))
    run = 0
    try:
        for block in range(1, size.blocks + 1):
            visit = Visit(cell, block)
            rates: dict[bool, float] = {}
            for attempt, has_observers in enumerate((True, False) if block % 2 else (False, True), start=1):
                run += 1
                phases = Phases(cell.id, reporter)
                testbed.has_observers = has_observers
                testbed.make_ready(visit, phases)
                rates[has_observers] = testbed.run(visit, attempt, run, phases).processed_per_s
            yield math.log(rates[True] / rates[False])
    finally:
        testbed.close()


def main(size: Size = FULL) -> None:
    with tempfile.TemporaryDirectory() as folder, interruption.noted():
        interval = inference.interval_of_ratio(list(log_ratios(size, Path(folder))))
    blocks = f"{interval.blocks} block{'s' * (interval.blocks != 1)} of {size.cell}, {size.measure_s:g} s each"
    known = (
        f"95 % interval {interval.low:.3f} to {interval.high:.3f}"
        if interval.is_known
        else inference.no_interval(interval.blocks)
    )
    print(f"observers: {interval.ratio:.3f} times the rate without them ({known}; {blocks})")


if __name__ == "__main__":
    main()
