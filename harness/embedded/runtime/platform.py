"""The platform charges work that takes time on real hardware, so that a simulated one can give it a cost; statistics of
waits by SQL Server's wait types.

The broker asks for processor time and page latches; the store charges flushes and the transport transfers. The broker
names the work and knows no cost. The real platform returns an empty tuple, which `yield from` passes at no cost.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from harness.embedded.runtime.tasks import Task, Wait


class Page(NamedTuple):
    """A page of a data file; its text is the resource of a wait for it: `7:1:305`."""

    database_id: int
    file_id: int
    page_id: int

    def __str__(self) -> str:
        return f"{self.database_id}:{self.file_id}:{self.page_id}"


# Work of the broker on a processor: `count` times, with `size_bytes` of messages.
Work = Literal[
    "begin_dialog",
    "send",  # the whole statement with its share of BEGIN and COMMIT TRANSACTION
    "transmit",  # a message from the transmission queue to the transport
    "acknowledge",  # process an acknowledgement that has arrived
    "enqueue",  # put a message that has arrived into its queue
    "create_target",  # make the target's endpoint on the first message of a conversation
    "receive",  # the statement, with or without messages
    "received_message",  # each message it returns, and what the procedure does with it
    "end_conversation",
    "launch",  # start an activation procedure
]


class Platform(Protocol):
    @property
    def dispatchers(self) -> int:
        """How many tasks transmit, and how many accept frames. Each conversation belongs to one of each."""
        ...

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        """Charge processor time."""
        ...

    def latch(self, page: Page) -> Iterable[Wait]:
        """Take an exclusive latch on a page, hold it for the change of one row and release it."""
        ...


class RealPlatform:
    """The hardware this runs on: work takes its time without being charged."""

    dispatchers = 1

    def cpu(self, work: Work, count: int = 1, size_bytes: int = 0) -> Iterable[Wait]:
        return ()

    def latch(self, page: Page) -> Iterable[Wait]:
        return ()


@dataclass(slots=True)
class WaitTotal:
    """A row of sys.dm_os_wait_stats, in nanoseconds."""

    waiting_tasks_count: int = 0
    wait_ns: int = 0
    max_wait_ns: int = 0
    signal_ns: int = 0  # part of `wait_ns`: ready to go on, but waiting for a processor


@dataclass(slots=True)
class CurrentWait:
    """A row of sys.dm_os_waiting_tasks, without its task."""

    wait_type: str
    started_ns: int
    page: Page | None  # of a page latch

    @property
    def resource_description(self) -> str | None:
        return None if self.page is None else str(self.page)


class WaitStatistics:
    """Waits since the start (or since `clear`), and `current`, the tasks that wait now.

    A task waits for one thing at a time: `begin`, then `end`, even if the wait was cancelled.
    """

    def __init__(self) -> None:
        self.totals: defaultdict[str, WaitTotal] = defaultdict(WaitTotal)
        self.latches: defaultdict[int, WaitTotal] = defaultdict(WaitTotal)  # of pages, by database
        self.current: dict[Task | None, CurrentWait] = {}
        self._ended: tuple[Task | None, int, WaitTotal, int] | None = None  # the latest: task, end, total, duration

    def begin(self, task: Task | None, wait_type: str, now_ns: int, page: Page | None = None) -> None:
        self.current[task] = CurrentWait(wait_type, now_ns, page)

    def end(self, task: Task | None, now_ns: int) -> None:
        wait = self.current.pop(task)
        duration_ns = now_ns - wait.started_ns
        total = self.totals[wait.wait_type]
        self._ended = (task, now_ns, total, duration_ns)
        total.waiting_tasks_count += 1
        total.wait_ns += duration_ns
        if duration_ns > total.max_wait_ns:  # noqa: PLR1730 - every wait passes here, and max() is a call
            total.max_wait_ns = duration_ns
        if wait.page is not None:
            latches = self.latches[wait.page.database_id]
            latches.waiting_tasks_count += 1
            latches.wait_ns += duration_ns

    def runnable(self, task: Task | None, now_ns: int, duration_ns: int) -> None:
        """Count a ready task's wait for a processor as signal wait time of the wait that has just ended, or of
        SOS_SCHEDULER_YIELD if there was none."""
        ended, self._ended = self._ended, None
        if ended is not None and ended[0] is task and ended[1] == now_ns:
            total = ended[2]
            whole_ns = ended[3] + duration_ns
        else:
            total = self.totals["SOS_SCHEDULER_YIELD"]
            total.waiting_tasks_count += 1
            whole_ns = duration_ns
        total.wait_ns += duration_ns
        total.signal_ns += duration_ns
        if whole_ns > total.max_wait_ns:  # noqa: PLR1730
            total.max_wait_ns = whole_ns

    def clear(self) -> None:
        self.totals.clear()
        self.latches.clear()
        self._ended = None
