"""The executor of this process: one attempt after another, on a testbed that is kept while it fits."""

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from harness.definitions.matrix import label
from harness.lab import interruption
from harness.output.reporting import Reporter
from harness.run.arrangement import Named
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed
from harness.run.engine import Attempted, Due, Swept, entry_of
from harness.run.phases import Phases

_FATAL_ERRNOS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)

Attempted_contra = TypeVar("Attempted_contra", bound=Named, contravariant=True)


class Testbed(Protocol[Attempted_contra]):
    """Lab, dialogs, clients and observers."""

    def make_ready(self, cell: Attempted_contra, phases: Phases) -> None:
        """Build whatever this cell needs and is not there yet; raise NotReady where that fails."""
        ...

    def run(self, cell: Attempted_contra, attempt: int, run: int, phases: Phases) -> Measured:
        """Make one attempt and write its raw records; raise CellFailed otherwise."""
        ...

    def tear_down(self) -> None:
        """End lab and clients after a failure, but not clients of other machines; never raise."""
        ...

    def close(self) -> None:
        """End everything; never raise."""
        ...


class InProcess(Generic[Swept]):
    """Implements `run.engine.Executor`."""

    attempts_max = 2

    def __init__(self, testbed: Testbed[Swept], reporter: Reporter) -> None:
        self._testbed = testbed
        self._reporter = reporter

    def batches(self, items: Sequence[Swept]) -> Iterator[Sequence[Swept]]:
        return ([item] for item in items)

    def time_left(self, items: Sequence[Swept]) -> None:
        return None

    def run(self, attempts: Sequence[Due[Swept]], on_end: Callable[[Attempted], None]) -> None:
        for due in attempts:
            attempted = self._attempt(due)
            on_end(attempted)
            if attempted.measured is None:
                self._testbed.tear_down()

    def close(self) -> None:
        self._testbed.close()

    def _attempt(self, due: Due[Swept]) -> Attempted:
        item, attempt, run = due
        phases = Phases(label(item.id, item.block), self._reporter)
        began = time.perf_counter()
        measured, failed, reason = None, None, ""
        try:
            self._testbed.make_ready(item, phases)
            measured = self._testbed.run(item, attempt, run, phases)
        except CellFailed as failure:
            failed, reason = failure, " ".join(str(failure).split())
        except OSError as error:
            if error.errno in _FATAL_ERRNOS:
                raise
            reason = f"{type(error).__name__}: {error}"
        interruption.check()  # a cell that an interrupt broke has not failed
        phases.seconds["total"] = round(time.perf_counter() - began, 4)
        return Attempted(entry_of(item, attempt, run, measured, reason, phases.seconds), measured, failed)
