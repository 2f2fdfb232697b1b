"""The plan of a cell for its clients, their progress and report, and whether they were the bottleneck."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from harness.definitions.load_model import OpenLoop
from harness.definitions.matrix import Cell, Visit
from harness.definitions.units import counted
from harness.failures import MachineFailure
from harness.files.message_bodies import Bodies
from harness.files.workload_file import Client

# The paper's two ways of sending.
SEND_MESSAGE = Client(procedure="dbo.SendMessage", parameters=("handle", "body"))
SEND_MESSAGE_ON_NEW_DIALOG = Client(procedure="dbo.SendMessageOnNewDialog", parameters=("broker_instance", "body"))


class LoadError(MachineFailure):
    """The clients failed; the message names the part and the reason in one line."""


@dataclass(frozen=True, slots=True)
class Sending:
    """The procedure that clients call, by initiator and thread the dialog or broker instance that they pass, and what
    bodies are made of."""

    client: Client
    handles: Sequence[Sequence[str]] = field(repr=False)
    bodies: Bodies | None = None  # None: bytes as many as the cell's payload


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One attempt at one cell in a block.

    `connection_strings` has one per initiator, to its database. `handles` has, for each initiator, the dialogs or
    the broker instance for each thread or more: a test client looks up nothing.
    """

    visit: Visit
    attempt: int
    run: int  # goes into every message's header
    connection_strings: Sequence[str] = field(repr=False)
    handles: Sequence[Sequence[str]] = field(repr=False)
    results: Path | None  # None: keeps no records
    client: Client = SEND_MESSAGE
    open_loop: OpenLoop | None = None  # None: the closed loop
    bodies: Bodies | None = None  # None: bytes as many as the cell's payload

    @property
    def cell(self) -> Cell:
        return self.visit.cell

    def __post_init__(self) -> None:
        assert len(self.connection_strings) == len(self.handles) == self.cell.initiators
        for number, handles in enumerate(self.handles, start=1):
            if len(handles) < self.cell.threads:
                threads = counted(self.cell.threads, "thread")
                raise LoadError(f"initiator {number} has {counted(len(handles), 'dialog')} for {threads}")


# A worker's threads share one interpreter lock: near the work of one processor they wait for each other.
PROCESSOR_PERCENT_MAX = 90.0
# In a closed loop without think time a thread only writes two numbers outside a call. A smaller share of time in calls
# means that something else delayed the threads.
TIME_IN_CALLS_MIN = 0.8
# Time in which threads were ready to run and had no processor is in their latencies, and missing in their rate.
RUN_DELAY_PERCENT_MAX = 10.0
# Machines of one network answer each other within a millisecond. Where more is most of a call, the network decides how
# much the clients send.
ROUND_TRIP_MS_MAX = 2.0
# The hub sends heartbeats: Locust counts a worker as missing after three seconds.
HUB_LAG_MS_MAX = 1000.0


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """One worker's own state over a cell."""

    initiator: int
    processor_percent: float  # of one processor, user and kernel
    hub_lag_ms_max: float  # how late the hub woke from a short sleep
    # Little's law: calls/s × mean latency is the number of threads that are in a call; here as a share of the threads.
    time_in_calls: float
    # Of all its threads' time: ready to run, but without a processor; None where the kernel does not say.
    run_delay_percent: float | None
    calls_without_pause: bool = True  # a closed loop without think time
    round_trip_ms: float = 0.0  # to its initiator and back, before the cell
    call_ms: float = 0.0  # mean of its calls

    def complaints(self) -> list[str]:
        """Reasons to doubt this cell's numbers."""
        worker = f"worker {self.initiator}"
        complaints = []
        if self.processor_percent > PROCESSOR_PERCENT_MAX:
            complaints.append(f"{worker} used {self.processor_percent:.0f} % of a processor: it is the bottleneck")
        if self.calls_without_pause and self.time_in_calls < TIME_IN_CALLS_MIN:
            complaints.append(f"{worker}: its threads were in calls only {self.time_in_calls:.0%} of the time")
        if (delay_percent := self.run_delay_percent or 0.0) > RUN_DELAY_PERCENT_MAX:
            complaints.append(f"{worker}: its threads waited {delay_percent:.0f} % of the time for a processor")
        if self.calls_without_pause and self.round_trip_ms > max(ROUND_TRIP_MS_MAX, self.call_ms / 2):
            complaints.append(
                f"{worker}: of the {self.call_ms:.1f} ms of a call the network takes {self.round_trip_ms:.1f} ms: "
                "run the clients near the initiators"
            )
        if self.hub_lag_ms_max > HUB_LAG_MS_MAX:
            complaints.append(f"{worker}: its event loop was {self.hub_lag_ms_max:.0f} ms late")
        return complaints


@dataclass(frozen=True, slots=True)
class Progress:
    """The sum of the workers' newest reports: counts ten times a second, the rate twice."""

    sent: int
    calls_per_s: float
    failed_calls: int
    running_threads: int
    counted_at_ns: int = 0  # when the workers counted `sent`, their mean; 0 before the first report


class Share(NamedTuple):
    """A worker's share of an initiator's threads: every `of`-th, from the `number`-th on."""

    initiator: int
    number: int = 1
    of: int = 1

    @property
    def writer(self) -> str:
        """Name the file of its calls."""
        return f"i{self.initiator}" if self.of == 1 else f"i{self.initiator}w{self.number}"

    def threads(self, count: int) -> range:
        """Its own of so many threads."""
        return range(self.number, count + 1, self.of)


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Results of the clients in a cell, as far as the accounting needs them. The `calls` files hold every call."""

    started_at_ns: int  # the first worker's barrier opened
    stopped_at_ns: int  # the last thread returned from its last call
    sent: dict[tuple[int, int], int]  # (initiator, thread) → calls that succeeded
    failed_calls: int
    errors: Sequence[tuple[str, int]]  # text of the ODBC error and how often, most frequent first
    problems: Sequence[str]  # threads that gave up or never returned; each makes the cell's numbers doubtful
    health: Sequence[GeneratorHealth]
    # When the barrier of each share's worker opened: there its part of an open loop's schedule begins.
    barriers_at_ns: Mapping[Share, int]

    @property
    def sent_messages(self) -> int:
        return sum(self.sent.values())
