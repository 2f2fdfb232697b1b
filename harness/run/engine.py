"""The loop over a run's items: attempts by an executor, the journal, second attempts, the next item.

A cell that failed is tried once more. One that was disturbed or not steady is measured again, for longer, when those of
its block on the same instances have had their turn: up to twice, and at most half of them. Where more are in doubt, the
machine or the window is not fit for the run, and no second try makes it so. An executor whose numbers depend on no
machine measures again at once, whatever the others do.
"""

import errno
import shutil
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

from harness.definitions.matrix import label
from harness.definitions.units import counted
from harness.failures import MachineFailure, StatementRefused
from harness.files.journal import Entry, Journal
from harness.files.records import State
from harness.output.reporting import Reporter, TimeLeft
from harness.run import run_folder
from harness.run.arrangement import Named
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed, NotReady

# Less free space than this, and the next cell's raw records may not fit.
FREE_SPACE_MIN_BYTES = 32 * 2**20
NOT_READY_FIRST_MAX = 2  # attempts in a row without a testbed, while nothing has run
NOT_READY_MAX = 4  # the same later, after which no further cell will have one
IN_DOUBT = frozenset({State.DISTURBED, State.UNSETTLED, State.BEHIND})
MEASURED_MAX = 3  # times, of a cell in doubt
AGAIN_SHARE = 0.5  # of the cells of a block that share their instances


class SweepStopped(MachineFailure):
    """The sweep cannot go on, for the reason in the message. The journal is complete."""


Swept = TypeVar("Swept", bound=Named)


class Due(NamedTuple, Generic[Swept]):
    """An attempt to be made: the item, the attempt's number, and its number in the run, for its payloads."""

    item: Swept
    attempt: int
    run: int


@dataclass(frozen=True)
class Attempted:
    """An attempt that has ended."""

    entry: Entry
    measured: Measured | None = None
    failure: CellFailed | None = None

    @property
    def is_final(self) -> bool:
        """Whether another attempt would fail in the same way."""
        return self.failure is not None and self.failure.is_final


class Executor(Protocol[Swept]):
    """How attempts are made: one after another in this process (`run.in_process`), or many at once with Spark."""

    attempts_max: int  # of an item, in one run

    def batches(self, items: Sequence[Swept]) -> Iterable[Sequence[Swept]]:
        """Cut the items, in their order, where a decision may depend on what was attempted before."""
        ...

    def time_left(self, items: Sequence[Swept]) -> TimeLeft | None:
        """Return an estimate that knows the items; None where all take about as long."""
        ...

    def run(self, attempts: Sequence[Due[Swept]], on_end: Callable[[Attempted], None]) -> None:
        """Make each attempt once, and call `on_end` when it ends; likewise for those that it makes again at once."""
        ...

    def close(self) -> None:
        """End everything; never raise."""
        ...


@dataclass
class Tally:
    completed: int = 0
    failed: int = 0
    not_needed: int = 0
    last_reason: str = ""
    last: Measured | None = None
    not_ready: int = 0  # attempts in a row


class Sweep(Generic[Swept]):
    """Runs items and keeps the journal."""

    def __init__(
        self,
        executor: Executor[Swept],
        journal: Journal,
        reporter: Reporter,
        results: Path,
        *,
        unit: str = "cell",
        together: Callable[[Swept], Hashable] | None = None,
        free_bytes: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._executor = executor
        self._journal = journal
        self._reporter = reporter
        self._results = results
        self._unit = unit
        self._together = together
        self._free_bytes = free_bytes
        self._tally = Tally()

    def run(self, items: Sequence[Swept], is_needed: Callable[[Swept], bool] = lambda item: True) -> Tally:
        """Run every item that is needed and that the journal does not call completed.

        `is_needed` is asked when a batch begins. Items in doubt are measured again after those that follow them with
        the same `together`; none is, where that is None. However the loop ends, it closes the executor.
        """
        completed = self._journal.completed()
        left = [item for item in items if (item.id, item.block) not in completed]
        tally = self._tally = Tally(completed=len(items) - len(left))
        self._reporter.begin(len(items), tally.completed, self._executor.time_left(left), unit=self._unit)
        stretches = [list(stretch) for _, stretch in groupby(items, self._together)] if self._together else []
        try:
            for batch in filter(None, self._executor.batches(left)):
                while stretches and batch[0] not in stretches[0]:
                    self._measure_again(stretches.pop(0))
                needed = [item for item in batch if is_needed(item)]
                tally.not_needed += len(batch) - len(needed)
                self._run_batch(needed, self._count)
            for stretch in stretches:
                self._measure_again(stretch)
        finally:
            self._reporter.end()
            self._executor.close()
        return tally

    def _measure_again(self, items: Sequence[Swept]) -> None:
        """Measure those in doubt once more, and what is still in doubt then a third time."""
        most = int(AGAIN_SHARE * len(items))
        while in_doubt := [item for item in items if self._is_in_doubt(item)]:
            names = ", ".join(label(item.id, item.block) for item in in_doubt)
            if len(in_doubt) > most:
                self._reporter.note(
                    f"in doubt: {len(in_doubt)} of {counted(len(items), self._unit)}, too many to repeat: see "
                    f"what else the machine does, or give a longer --measure ({names})"
                )
                return
            self._reporter.note(f"measured again, for longer: {names}")
            self._run_batch(in_doubt, self._note_again)
            items = in_doubt

    def _is_in_doubt(self, item: Swept) -> bool:
        entries = [entry for entry in self._journal.entries if (entry.cell, entry.block) == (item.id, item.block)]
        return bool(entries) and is_in_doubt(entries[-1], len(entries))

    def _run_batch(self, batch: Sequence[Swept], on_result: Callable[[Attempted], None]) -> None:
        by_name = {(item.id, item.block): item for item in batch}
        due, attempts_left = list(batch), self._executor.attempts_max

        def on_end(attempted: Attempted) -> None:
            entry = attempted.entry
            name = (entry.cell, entry.block)
            self._journal.append(entry)
            if name not in by_name:  # it has its result
                self._note_again(attempted)
                return
            if entry.outcome == "failed":
                self._require_another(attempted)
                if attempts_left and not attempted.is_final:
                    self._reporter.note(f"{label(*name)} failed and will be tried again: {entry.reason}")
                    due.append(by_name[name])
                    return
            del by_name[name]
            on_result(attempted)

        while due:
            attempts_left -= 1
            run = self._journal.next_run()
            attempts = [Due(item, self._journal.attempts(item.id, item.block) + 1, run) for item in due]
            due.clear()
            self._executor.run(attempts, on_end)

    def _require_another(self, failed: Attempted) -> None:
        """Raise OSError, StatementRefused or SweepStopped where every further attempt would fail too."""
        if self._free_bytes(self._results) < FREE_SPACE_MIN_BYTES:
            raise OSError(errno.ENOSPC, "No space left on device", str(self._results))
        tally, most = self._tally, NOT_READY_MAX if self._tally.completed else NOT_READY_FIRST_MAX
        if not isinstance(failed.failure, NotReady):
            tally.not_ready = 0
            return
        tally.not_ready += NOT_READY_FIRST_MAX if failed.is_final else 1
        if tally.not_ready >= most:
            reason = failed.entry.reason
            raise StatementRefused(reason) if failed.is_final else SweepStopped(f"the lab is not available: {reason}")

    def _note_again(self, attempted: Attempted) -> None:
        entry = attempted.entry
        self._reporter.note(f"{label(entry.cell, entry.block)} measured again: {describe(entry)}")

    def _count(self, attempted: Attempted) -> None:
        entry, tally = attempted.entry, self._tally
        if entry.outcome == "completed":
            tally.completed += 1
            tally.last, tally.not_ready = attempted.measured, 0
            self._reporter.rate(entry.processed_per_s)
        else:
            tally.failed += 1
            tally.last_reason = entry.reason
        number = tally.completed + tally.failed + tally.not_needed
        self._reporter.cell_done(number, label(entry.cell, entry.block), entry.outcome, describe(entry))


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
        leak=measured.leak if measured else "",
        phases_s=phases_s,
        block=cell.block,
    )


def is_in_doubt(entry: Entry, times: int) -> bool:
    """Whether a cell that was attempted so many times may be measured again: not where the last attempt failed, which
    leaves what was measured before."""
    return entry.state in IN_DOUBT and times < MEASURED_MAX


def describe(entry: Entry) -> str:
    if entry.outcome != "completed":
        return entry.reason
    state = f", {entry.state}: {entry.state_reason}" if entry.state not in {"", State.VALID} else ""
    return f"{entry.sent_per_s:,.0f} sent/s, {entry.processed_per_s:,.0f} processed/s{state}"
