"""What a stall of an instance does to latency: the process of an embedded initiator stands still in the window.

The open loop counts the time that a send should have waited for, so its 99th percentile follows from the stall: of the
sends of a window W, those of the last (S - x) of a stall S wait for at least x, which is 1 % of all at x = S - W / 100.
The closed loop has no more sends in the stall than threads. Its percentile hardly moves, which is why it misleads.
"""

import math
import os
import signal
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from harness.definitions.matrix import Cell, Visit
from harness.experiments.lab_choice import OnServers
from harness.lab import interruption
from harness.lab.opening import select_lab
from harness.output.reporting import Reporter
from harness.run.arrangement import Item
from harness.run.attempt import Measured
from harness.run.equipment import Preflight
from harness.run.phases import Phases
from harness.run.testbed import LabTestbed

CELL = Cell.parse("i1-t10-r1-p100-v2008")
STALL_S = 0.2


@dataclass(frozen=True)
class Size:
    rate: str
    measure_s: float
    settle_s: float  # at most


FULL = Size("300/s", 5.0, 2.5)
SMALLEST = Size("50/s", 1.0, 0.2)


class StallingTestbed(LabTestbed):
    """A lab whose first initiator may stand still for STALL_S in the middle of the window."""

    is_stalling = False
    stalled_s = 0.0

    def run(self, cell: Item, attempt: int, run: int, phases: Phases) -> Measured:
        parts = self._stages[cell.cell.server_version].equipment.parts
        assert parts is not None
        child = parts.lab.initiators[0].process
        if not self.is_stalling:
            return super().run(cell, attempt, run, phases)
        timer = threading.Timer(self._settings.measure / 2, self._stall, [child.pid])  # type: ignore[union-attr]
        begins = parts.observers.window_begins

        def window_begins() -> None:
            begins()
            timer.start()

        parts.observers.window_begins = window_begins  # type: ignore[method-assign]
        try:
            return super().run(cell, attempt, run, phases)
        finally:
            parts.observers.window_begins = begins  # type: ignore[method-assign]
            timer.join()

    def _stall(self, pid: int) -> None:
        began_s = time.perf_counter()
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(STALL_S)
        finally:
            os.kill(pid, signal.SIGCONT)
            self.stalled_s = time.perf_counter() - began_s


def p99_ms(size: Size, rate: str | None, folder: Path) -> dict[str, float]:
    """Return the 99th percentile without a stall and with one, and the one that the open loop should have with it."""
    times = {"measure": size.measure_s, "settle": size.settle_s}
    options = {"lab": "embedded", **times, "results": folder, "rate": rate}
    selection = select_lab(options)
    results = OnServers(selection.settings, selection.topology).open_results([CELL])
    reporter = Reporter()
    testbed = StallingTestbed(selection.topology, Preflight(selection.settings, [CELL], results, reporter))
    found = {}
    try:
        for attempt, name in enumerate(("without", "with"), start=1):
            testbed.is_stalling = name == "with"
            phases = Phases(CELL.id, reporter)
            visit = Visit(CELL, 1)
            testbed.make_ready(visit, phases)
            p99_us = testbed.run(visit, attempt, attempt, phases).columns["latency_us_p99"]
            found[name] = (p99_us or math.nan) / 1000  # NaN where too few calls carry it, as in the smallest size
    finally:
        testbed.close()
    return found | {"expected": 1000 * (testbed.stalled_s - size.measure_s / 100)}


def main(size: Size = FULL) -> None:
    with tempfile.TemporaryDirectory() as folder, interruption.noted():
        loops = {
            name: p99_ms(size, rate, Path(folder) / name) for name, rate in (("open", size.rate), ("closed", None))
        }
    for name, found in loops.items():
        goal = f" (goal {found['expected']:.0f} ms ± 10 %)" if name == "open" else ""
        print(
            f"stall of {1000 * STALL_S:.0f} ms in {size.measure_s:g} s, {name} loop: "
            f"p99 {found['without']:.1f} ms without, {found['with']:.1f} ms with it{goal}"
        )


if __name__ == "__main__":
    main()
