"""Whether a completed cell counts, and for what: its state, and why.

The state is decided by the measured window. A cell that is `valid` counts for everything. One that is `saturated`
counts for its rate processed, and so for the gain of its pair: the target processed less than was sent, but at a steady
rate, which is the most that it can sustain. Its backlog grows as long as the clients send, so its latencies say how
long that was, and do not count. Any other state means that no number is that of the lab at this load. Where several
apply, the cause comes before its effects, in this order:

* `disturbed`: the machine. A clock was set, the hypervisor took more processor time than before in the run, other
  processes more than before the run, a database file grew, or an instance read pages from disk that did not fit into
  its memory.
* `starved`: the generator. A worker, or its way to the initiator, was the bottleneck, so the instances could have done
  more; or the clients did not keep to the rate of an open loop.
* `behind`: the target processed more than was sent. It drained the backlog of the time before.
* `unsettled`: the rates or the number of queue readers still changed, or the window was too short for them.
* `saturated`: the target processed less than was sent. Where the rest waits, there is the bottleneck: in the target's
  queue for its readers, or in the initiators' for the way and for the target to accept it.

Where the target receives in batch, once the clients have stopped, what it processes decides nothing.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from harness.definitions.measures import Numbers
from harness.files.records import State
from harness.load.plan import GeneratorHealth
from harness.observe.machine_use import MachineUse
from harness.run.settling import readers_changed
from harness.run.steadiness import RATE_ERROR_MAX, TOLERANCE, change, processed_error, rate_error

# Processor time that the hypervisor takes is missing in the rates: where it takes some all the time, the machine is a
# slower one. All tolerances of this kind are 5 %: smaller differences cannot be distinguished from none in a cell.
STEAL_PERCENT_MAX = 5.0
# Beyond what other processes used before the run: a load that was there all the time makes a slower machine, on which
# cells can be compared with one another. An idle system uses some percent of one processor, and the kernel works for
# the run too, in processes of its own.
OTHERS_PERCENT_MAX = 10.0
# Pages that an instance may read from disk. At 0.5 ms a read from an SSD, 100 a second keep even a lone client or queue
# reader waiting for 5 % of the time. For servers in general 90 reads a second are advised as the bound. A lab whose
# data are in memory reads fewer: one page of free space (PFS) for every 64 MiB, so 2 or 3 a second at 18,000 messages
# of 8 KB, each with its 7 neighbours as long as the buffer pool is not full. Where data do not fit, messages wait for
# pages of their own, thousands a second.
# https://www.sqlshack.com/sql-server-memory-performance-metrics-part-3-sql-server-buffer-manager-metrics-memory-counters/
PAGES_READ_PER_S_MAX = 100
_MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What is known of a completed cell at its end."""

    window_s: float  # its length
    sent: Numbers  # calls that returned, in equal parts of the window
    processed: Numbers  # messages, likewise; in batch, of the time in which the target receives
    in_batch: bool = False  # the target receives after the window alone
    readers_at_begin: int
    readers_at_end: int
    queue_growth: int = 0  # messages that the target's queue gained in the window
    growth_bytes: Mapping[str, int] = field(default_factory=dict)  # of the files of each database, in the window
    pages_read: Mapping[str, int] = field(default_factory=dict)  # from disk, by instance; without those not known
    health: Sequence[GeneratorHealth] = ()
    shortfall: str = ""  # of the rate that an open loop asks for
    machine: MachineUse | None = None  # None in virtual time, and where the system does not say
    others_before_percent: float = 0.0  # of all processors' time: what other processes used before the run
    stolen_before_percent: float = 0.0  # likewise: what the hypervisor took in the run until the cell began
    clocks_set: Sequence[str] = ()  # from before the cell until after it, in words


def judge(evidence: Evidence) -> tuple[State, str]:
    """Return the state of a cell and the reason for it, which is empty for a valid one."""
    for state, reasons in _RULES:
        if evidence.in_batch and state in _IN_THE_SAME_TIME:
            continue
        if reasons_found := reasons(evidence):
            return state, "; ".join(reasons_found)
    return State.VALID, ""


def _disturbed(evidence: Evidence) -> list[str]:
    reasons = list(evidence.clocks_set)
    machine = evidence.machine
    stolen_before, others_before = evidence.stolen_before_percent, evidence.others_before_percent
    if machine and machine.steal_percent > stolen_before + STEAL_PERCENT_MAX:
        before = f", {stolen_before:.0f} % before" if stolen_before >= 1 else ""
        reasons.append(f"the hypervisor took {machine.steal_percent:.0f} % of the processors' time{before}")
    if machine and machine.others_percent > others_before + OTHERS_PERCENT_MAX:
        before = f", {others_before:.0f} % before the run" if others_before >= 1 else ""
        reasons.append(f"other processes used {machine.others_percent:.0f} % of the processors' time{before}")
    if grown := [f"{name} {size / _MIB:,.1f} MiB" for name, size in evidence.growth_bytes.items() if size > 0]:
        reasons.append(f"database files grew ({'; '.join(grown)})")
    pages_max = PAGES_READ_PER_S_MAX * evidence.window_s
    if read := [f"{name} {pages:,}" for name, pages in evidence.pages_read.items() if pages > pages_max]:
        memory = "max server memory, or MSSQL_MEMORY_LIMIT_MB and MSSQL_CONTAINER_MEMORY of containers"
        text = f"pages were read from disk ({', '.join(read)})"
        reasons.append(f"{text}: give more memory ({memory}), or use fewer dialogs")
    return reasons


def _starved(evidence: Evidence) -> list[str]:
    complaints = [text for health in evidence.health for text in health.complaints()]
    return [*complaints, *filter(None, [evidence.shortfall])]


def _behind(evidence: Evidence) -> list[str]:
    sent, processed = int(evidence.sent.sum()), int(evidence.processed.sum())
    if processed - sent <= _backlog_by_chance(evidence):
        return []
    times = f"{processed / sent:.2f} times what" if sent else f"{processed:,} messages while nothing"
    return [f"the target processed {times} was sent: the rest is backlog of the time before"]


def _unsettled(evidence: Evidence) -> list[str]:
    if not evidence.sent.any():
        return ["no call returned in the window"]
    if evidence.in_batch:
        return change("sent", evidence.sent, evidence.window_s)
    quantities = change("processed", evidence.processed, evidence.window_s)
    if not _saturated(evidence):
        quantities += change("sent", evidence.sent, evidence.window_s)
    fewest, most = sorted((evidence.readers_at_begin, evidence.readers_at_end))
    if readers_changed(fewest, most):
        quantities.append(
            f"queue readers went from {evidence.readers_at_begin} to {evidence.readers_at_end} in the window"
        )
    error = processed_error(evidence.sent, evidence.processed)
    if not quantities and error > RATE_ERROR_MAX:
        quantities.append(f"the rate processed is known only within {error:.0%}: give a longer --measure")
    return quantities


def _saturated(evidence: Evidence) -> list[str]:
    sent, processed = int(evidence.sent.sum()), int(evidence.processed.sum())
    if sent - processed <= _backlog_by_chance(evidence):
        return []
    queued = min(max(0, evidence.queue_growth), sent - processed) / (sent - processed)
    where = f"{queued:.0%} of the rest waits in its queue, {1 - queued:.0%} on the way there"
    return [f"the target processed {processed / sent:.0%} of what was sent; {where}"]


def _backlog_by_chance(evidence: Evidence) -> float:
    """Return by how many messages a backlog may have changed where the target keeps up."""
    sent, processed = int(evidence.sent.sum()), int(evidence.processed.sum())
    spread = min(rate_error(evidence.processed), RATE_ERROR_MAX) * processed
    return max(TOLERANCE * sent, math.sqrt(sent + processed), spread)


# They compare what was sent with what was processed meanwhile.
_IN_THE_SAME_TIME = (State.BEHIND, State.SATURATED)
_RULES: Sequence[tuple[State, Callable[[Evidence], list[str]]]] = (
    (State.DISTURBED, _disturbed),
    (State.STARVED, _starved),
    (State.BEHIND, _behind),
    (State.UNSETTLED, _unsettled),
    (State.SATURATED, _saturated),
)
