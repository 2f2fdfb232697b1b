"""The loop over the cells: journal, retry, rebuild, go on."""

from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from harness.failures import MachineFailure
from harness.sweep import manifest
from harness.sweep.cell import CellFailed, Measured, NotReady
from harness.sweep.journal import Entry, Journal
from harness.sweep.phases import Phases
from harness.sweep.reporting import Reporter

ATTEMPTS_MAX = 2
# Less free space than this, and the next cell's raw records may not fit.
FREE_SPACE_MIN_BYTES = 32 * 2**20
# So many attempts in a row without a stand, and no further cell will have one.
NOT_READY_MAX = 4
_FATAL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


class SweepStopped(MachineFailure):
    """The sweep cannot go on; the message says why. The journal is complete."""


class Named(Protocol):
    """What can be swept: a cell of the matrix, a run of a technique."""

    @property
    def id(self) -> str: ...


Swept = TypeVar("Swept", bound=Named)
Swept_contra = TypeVar("Swept_contra", bound=Named, contravariant=True)


class Stand(Protocol[Swept_contra]):
    """Where cells run: lab, dialogs, clients, observers."""

    def make_ready(self, cell: Swept_contra, phases: Phases) -> None:
        """Builds whatever this cell needs and does not stand yet; NotReady where it cannot."""
        ...

    def run(self, cell: Swept_contra, attempt: int, run: int, phases: Phases) -> Measured:
        """One attempt by the protocol; raw records are written when it returns. CellFailed otherwise."""
        ...

    def tear_down(self) -> None:
        """Ends lab and clients; never raises."""
        ...


@dataclass
class Tally:
    completed: int = 0
    failed: int = 0
    last_reason: str = ""
    last: Measured | None = None
    not_ready: int = 0  # attempts in a row


class Sweep(Generic[Swept]):
    """Runs cells on a stand and keeps the journal."""

    def __init__(
        self,
        stand: Stand[Swept],
        journal: Journal,
        reporter: Reporter,
        results: Path,
        *,
        watch: Callable[[], None] = lambda: None,
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._stand = stand
        self._journal = journal
        self._reporter = reporter
        self._results = results
        self._watch = watch
        self._free_bytes = free_bytes

    def run(self, cells: Sequence[Swept]) -> Tally:
        """Every cell that the journal does not call completed. The stand is torn down at the end, however it ends."""
        done = self._journal.completed()
        tally = Tally(completed=sum(cell.id in done for cell in cells))
        self._reporter.begin(len(cells), tally.completed)
        number = tally.completed
        try:
            for cell in cells:
                if cell.id in done:
                    continue
                number += 1
                entry = self._run_cell(cell, tally)
                if entry.outcome == "completed":
                    tally.completed += 1
                else:
                    tally.failed += 1
                    tally.last_reason = entry.reason
                self._reporter.cell_done(number, cell.id, entry.outcome, describe(entry))
        finally:
            self._stand.tear_down()
        return tally

    def _run_cell(self, cell: Swept, tally: Tally) -> Entry:
        before = self._journal.attempts(cell.id)
        for attempt in range(before + 1, before + 1 + ATTEMPTS_MAX):
            entry = self._attempt(cell, attempt, tally)
            if entry.outcome == "completed":
                break
            self._stand.tear_down()
            self._check_disk()
            # Nothing has run yet: the first cell's two attempts are enough.
            if tally.not_ready >= (NOT_READY_MAX if tally.completed else ATTEMPTS_MAX):
                raise SweepStopped(f"the lab does not come up: {entry.reason}")
            if attempt < before + ATTEMPTS_MAX:
                self._reporter.note(f"{cell.id} failed, is tried again: {entry.reason}")
        return entry

    def _attempt(self, cell: Swept, attempt: int, tally: Tally) -> Entry:
        run = self._journal.next_run()

        def on_phase(name: str) -> None:
            self._watch()
            self._reporter.phase(f"{cell.id}: {name}")

        phases = Phases(on_phase)
        began = time.perf_counter()
        measured, reason = None, ""
        try:
            self._stand.make_ready(cell, phases)
            measured = self._stand.run(cell, attempt, run, phases)
        except CellFailed as failure:
            reason = " ".join(str(failure).split())
            tally.not_ready = tally.not_ready + 1 if isinstance(failure, NotReady) else 0
        except OSError as error:
            if error.errno in _FATAL_ERRNOS:
                raise
            reason = f"{type(error).__name__}: {error}"
        self._watch()  # a cell that an interrupt broke has not failed
        phases.seconds["total"] = round(time.perf_counter() - began, 4)
        entry = Entry(
            cell.id,
            attempt,
            "completed" if measured else "failed",
            reason,
            manifest.now(),
            run,
            sent_per_s=round(measured.sent_per_s, 1) if measured else 0.0,
            processed_per_s=round(measured.processed_per_s, 1) if measured else 0.0,
            phases_s=phases.seconds,
        )
        self._journal.append(entry)
        if measured:
            tally.last, tally.not_ready = measured, 0
            self._reporter.rate(measured.processed_per_s)
        return entry

    def _check_disk(self) -> None:
        """A failed cell may have failed for want of space: then every further one would."""
        if self._free_bytes(self._results) < FREE_SPACE_MIN_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device", str(self._results))


def describe(entry: Entry) -> str:
    if entry.outcome != "completed":
        return entry.reason
    return f"{entry.sent_per_s:,.0f} sent/s, {entry.processed_per_s:,.0f} processed/s"
