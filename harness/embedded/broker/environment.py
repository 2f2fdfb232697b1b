"""What the parts of one instance share: clock, entropy, store, platform, wait statistics, counters and error log."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple

from harness.embedded.broker.keys import Keys
from harness.embedded.runtime.platform import Platform, WaitStatistics
from harness.embedded.runtime.tasks import SECOND, Clock, Entropy, Scheduler
from harness.embedded.store.group_commit import Store
from harness.output.safe_text import one_line

ERROR_LOG_ENTRIES_MAX = 1000
ERROR_LOG_TEXT_MAX = 2100  # characters of an entry: RAISERROR has 2,047
BROKER_PROCESS = "spid9s"  # ProcessInfo of the broker's own entries


@dataclass(frozen=True, slots=True)
class Environment:
    """What every part of an instance may use beside the parts that it works with."""

    instance: str  # its name
    scheduler: Scheduler
    clock: Clock
    entropy: Entropy
    store: Store
    platform: Platform
    waits: WaitStatistics
    counters: Counters
    error_log: ErrorLog
    keys: Keys


class ReplaceableEntropy:
    """Entropy whose source can be replaced for all its users."""

    def __init__(self, source: Entropy) -> None:
        self.source = source

    def random_bytes(self, count: int) -> bytes:
        return self.source.random_bytes(count)


def datetime_text(utc_ns: int) -> str:
    """Format a datetime as XML and ERRORLOG do."""
    return datetime.fromtimestamp(utc_ns / SECOND, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00")


class ErrorLogEntry(NamedTuple):
    """A row of sp_readerrorlog and a line of ERRORLOG."""

    utc_ns: int
    process_info: str
    text: str  # one line, whatever it came from


class ErrorLog:
    """The latest entries of ERRORLOG, newest last. `copy` gets each too: a server adds it to a file."""

    def __init__(self, clock: Clock, copy: Callable[[ErrorLogEntry], None] | None = None) -> None:
        self._clock = clock
        self.entries: deque[ErrorLogEntry] = deque(maxlen=ERROR_LOG_ENTRIES_MAX)
        self._copy = copy

    @property
    def lines(self) -> list[str]:
        """The entries as text."""
        return [f"{datetime_text(entry.utc_ns)} {entry.text}" for entry in self.entries]

    def write(self, text: str, process_info: str = BROKER_PROCESS) -> None:
        entry = ErrorLogEntry(self._clock.utc_ns(), process_info, one_line(text, ERROR_LOG_TEXT_MAX))
        self.entries.append(entry)
        if self._copy is not None:
            self._copy(entry)


GAUGE = 65792  # cntr_type of an instantaneous value
RATE = 272696576  # cntr_type of a running total that is read as "/sec"


class CounterRow(NamedTuple):
    """A row of sys.dm_os_performance_counters."""

    object_name: str
    counter_name: str
    instance_name: str
    cntr_value: int
    cntr_type: int


STATISTICS = "SQLServer:Broker Statistics"

# SQL Server's performance objects -> their counters, in the order of the manual -> the attribute that they show
_SHOWN: dict[str, dict[str, str]] = {
    STATISTICS: {
        "Activation Errors Total": "activation_errors",
        "Broker Transaction Rollbacks": "rollbacks",
        "Corrupted Messages Total": "corrupted",
        "Dequeued Transmission Msgs/sec": "dequeued_transmission",
        "Dialog timer event count": "dialog_timers",
        "Dropped Messages Total": "dropped",
        "Enqueued Local Messages Total": "enqueued_local",
        "Enqueued Local Messages/sec": "enqueued_local",
        "Enqueued Messages Total": "enqueued",
        "Enqueued Messages/sec": "enqueued",
        "Enqueued Transmission Msgs/sec": "enqueued_transmission",
        "Enqueued Transport Msg Frag Tot": "enqueued_transport",
        "Enqueued Transport Msg Frags/sec": "enqueued_transport",
        "Enqueued Transport Msgs Total": "enqueued_transport",
        "Enqueued Transport Msgs/sec": "enqueued_transport",
        "SQL RECEIVE Total": "receives",
        "SQL RECEIVEs/sec": "receives",
        "SQL SEND Total": "sends",
        "SQL SENDs/sec": "sends",
    },
    "SQLServer:Broker Activation": {
        "Stored Procedures Invoked/sec": "procedures_invoked",
        "Task Limit Reached": "task_limit_reached",
        "Task Limit Reached/sec": "task_limit_reached",
        "Tasks Aborted/sec": "tasks_aborted",
        "Tasks Running": "tasks_running",
        "Tasks Started/sec": "tasks_started",
    },
    "SQLServer:Broker/DBM Transport": {
        "Message Fragment Receives/sec": "fragments_received",
        "Message Fragment Sends/sec": "fragments_sent",
        "Receive I/O bytes/sec": "bytes_received",
        "Send I/O bytes/sec": "bytes_sent",
    },
}


@dataclass(slots=True)
class Counters:
    """Running totals."""

    activation_errors: int = 0
    rollbacks: int = 0
    corrupted: int = 0
    dequeued_transmission: int = 0
    dialog_timers: int = 0
    dropped: int = 0
    enqueued_local: int = 0
    enqueued: int = 0
    enqueued_transmission: int = 0
    enqueued_transport: int = 0
    receives: int = 0
    sends: int = 0
    procedures_invoked: int = 0
    task_limit_reached: int = 0
    tasks_aborted: int = 0
    tasks_running: int = 0
    tasks_started: int = 0
    fragments_received: int = 0
    fragments_sent: int = 0
    bytes_received: int = 0
    bytes_sent: int = 0
    enqueued_by_priority: list[int] = field(default_factory=lambda: [0] * 11)

    def rows(self) -> Iterator[CounterRow]:
        """The broker's rows of sys.dm_os_performance_counters."""
        for object_name, counters in _SHOWN.items():
            for counter_name, attribute in counters.items():
                kind = RATE if counter_name.endswith("/sec") else GAUGE
                yield CounterRow(object_name, counter_name, "", getattr(self, attribute), kind)
        for priority in range(1, 11):
            name = f"Enqueued P{priority} Msgs/sec"
            yield CounterRow(STATISTICS, name, "", self.enqueued_by_priority[priority], RATE)
