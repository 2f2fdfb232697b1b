"""The loop over a run's cells: journal, second attempt, rebuilt testbed, next cell."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.failures import MachineFailure
from harness.journal import Entry, Journal
from harness.lab import interruption
from harness.matrix import label
from harness.records import State
from harness.reporting import Reporter
from harness.run import run_folder
from harness.run.arrangement import Named
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed, NotReady
from harness.run.phases import Phases

ATTEMPTS_MAX = 2
# Less free space than this, and the next cell's raw records may not fit.
FREE_SPACE_MIN_BYTES = 32 * 2**20
NOT_READY_MAX = 4  # attempts in a row without a testbed, after which no further cell will have one
_FATAL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class SweepStopped(MachineFailure):
    """The sweep cannot go on, for the reason in the message. The journal is complete."""


Swept = TypeVar("Swept", bound=Named)
Swept_contra = TypeVar("Swept_contra", bound=Named, contravariant=True)


class Testbed(Protocol[Swept_contra]):
    """Lab, dialogs, clients and observers."""

    def make_ready(self, cell: Swept_contra, phases: Phases) -> None:
        """Builds whatever this cell needs and is not there yet; raises NotReady where it cannot."""
        ...

    def run(self, cell: Swept_contra, attempt: int, run: int, phases: Phases) -> Measured:
        """Makes one attempt and writes its raw records; raises CellFailed otherwise."""
        ...

    def tear_down(self) -> None:
        """Ends lab and clients after a failure, but not clients of other machines; never raises."""
        ...

    def close(self) -> None:
        """Ends everything; never raises."""
        ...


@dataclass
class Tally:
    completed: int = 0
    failed: int = 0
    not_needed: int = 0
    last_reason: str = ""
    last: Measured | None = None
    not_ready: int = 0  # attempts in a row
    is_final: bool = False  # another attempt at the cell that failed last would fail the same way


class Sweep(Generic[Swept]):
    """Runs cells on a testbed and keeps the journal."""

    def __init__(
        self,
        testbed: Testbed[Swept],
        journal: Journal,
        reporter: Reporter,
        results: Path,
        *,
        unit: str = "cell",
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._testbed = testbed
        self._journal = journal
        self._reporter = reporter
        self._results = results
        self._unit = unit
        self._free_bytes = free_bytes

    def run(self, cells: Sequence[Swept], is_needed: Callable[[Swept], bool] = lambda cell: True) -> Tally:
        """Runs every cell that is needed and that the journal does not call completed.

        `is_needed` is asked when a cell's turn comes. However the loop ends, it closes the testbed.
        """
        completed = self._journal.completed()
        tally = Tally(completed=sum((cell.id, cell.block) in completed for cell in cells))
        self._reporter.begin(len(cells), tally.completed, unit=self._unit)
        number = tally.completed
        try:
            for cell in cells:
                if (cell.id, cell.block) in completed:
                    continue
                number += 1
                if not is_needed(cell):
                    tally.not_needed += 1
                    continue
                entry = self._run_cell(cell, tally)
                if entry.outcome == "completed":
                    tally.completed += 1
                else:
                    tally.failed += 1
                    tally.last_reason = entry.reason
                self._reporter.cell_done(number, label(entry.cell, entry.block), entry.outcome, describe(entry))
        finally:
            self._reporter.end()
            self._testbed.close()
        return tally

    def _run_cell(self, cell: Swept, tally: Tally) -> Entry:
        before = self._journal.attempts(cell.id, cell.block)
        for attempt in range(before + 1, before + 1 + ATTEMPTS_MAX):
            entry = self._attempt(cell, attempt, tally)
            if entry.outcome == "completed":
                break
            self._testbed.tear_down()
            self._check_disk()
            # While nothing has run, the first cell's two attempts are enough.
            if tally.not_ready >= (NOT_READY_MAX if tally.completed else ATTEMPTS_MAX):
                raise SweepStopped(entry.reason if tally.is_final else f"the lab is not available: {entry.reason}")
            if tally.is_final:
                break
            if attempt < before + ATTEMPTS_MAX:
                self._reporter.note(f"{label(cell.id, cell.block)} failed and will be tried again: {entry.reason}")
        return entry

    def _attempt(self, cell: Swept, attempt: int, tally: Tally) -> Entry:
        run = self._journal.next_run()
        phases = Phases(label(cell.id, cell.block), self._reporter)
        began = time.perf_counter()
        measured, reason = None, ""
        try:
            self._testbed.make_ready(cell, phases)
            measured = self._testbed.run(cell, attempt, run, phases)
        except CellFailed as failure:
            reason = " ".join(str(failure).split())
            tally.is_final = failure.is_final
            more = ATTEMPTS_MAX if failure.is_final else 1
            tally.not_ready = tally.not_ready + more if isinstance(failure, NotReady) else 0
        except OSError as error:
            if error.errno in _FATAL_ERRNOS:
                raise
            reason, tally.is_final = f"{type(error).__name__}: {error}", False
        interruption.check()  # a cell that an interrupt broke has not failed
        phases.seconds["total"] = round(time.perf_counter() - began, 4)
        entry = entry_of(cell, attempt, run, measured, reason, phases.seconds)
        self._journal.append(entry)
        if measured:
            tally.last, tally.not_ready = measured, 0
            self._reporter.rate(measured.processed_per_s)
        return entry

    def _check_disk(self) -> None:
        """Raises OSError where the disk is full: every further cell would fail too."""
        if self._free_bytes(self._results) < FREE_SPACE_MIN_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device", str(self._results))


def entry_of(  # noqa: PLR0917
    cell: Named, attempt: int, run: int, measured: Measured | None, reason: str, phases_s: dict[str, float]
) -> Entry:
    """Return the line of the journal for an attempt, which has failed if it measured nothing."""
    return Entry(
        cell.id,
        attempt,
        "completed" if measured else "failed",
        reason,
        run_folder.now(),
        run,
        sent_per_s=measured.sent_per_s if measured else 0.0,
        processed_per_s=measured.processed_per_s if measured else 0.0,
        state=measured.state if measured else "",
        state_reason=measured.state_reason if measured else "",
        phases_s=phases_s,
        block=cell.block,
    )


def describe(entry: Entry) -> str:
    if entry.outcome != "completed":
        return entry.reason
    state = f", {entry.state}: {entry.state_reason}" if entry.state not in {"", State.VALID} else ""
    return f"{entry.sent_per_s:,.0f} sent/s, {entry.processed_per_s:,.0f} processed/s{state}"
