"""What else this machine did while a cell was measured: load average, time that the hypervisor took, other processes.

Read from /proc at both ends of the window. The run's own processes are this one and its descendants: clients, and the
instances of the embedded lab. Other instances on this machine are the run's too; they say themselves how much processor
time they used (record `processors`).
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class MachineUse:
    """A row of the record `machine`."""

    load_average_1m: float  # at the end of the window
    steal_percent: float  # of all processors' time: what the hypervisor gave to other machines
    others_percent: float  # of all processors' time: processes that do not belong to the run
    processors: int


@dataclass(frozen=True, slots=True)
class MachineTotals:
    """Totals of the machine at one moment, in seconds."""

    at_s: float
    busy_s: float  # in processes, user and kernel
    stolen_s: float
    own_s: float  # in the run's processes

    @classmethod
    def now(cls) -> MachineTotals | None:
        """Read the totals; None where the system has no /proc as Linux has it."""
        try:
            user, nice, system, _, _, _, _, steal = (
                int(ticks) for ticks in (_PROC / "stat").read_text().split(maxsplit=9)[1:9]
            )
            own = processor_ticks_of_tree(os.getpid())
        except (OSError, ValueError):
            return None
        return cls(time.monotonic(), (user + nice + system) / _TICKS_PER_S, steal / _TICKS_PER_S, own / _TICKS_PER_S)


def machine_use(before: MachineTotals, after: MachineTotals, *, instances_s: float) -> MachineUse:
    """Return the use between two moments; `instances_s` is the processor time of the run's other processes here."""
    processors = os.cpu_count() or 1
    available_s = max(1e-9, (after.at_s - before.at_s) * processors)
    others_s = (after.busy_s - before.busy_s) - (after.own_s - before.own_s) - instances_s
    return MachineUse(
        load_average_1m=os.getloadavg()[0],
        steal_percent=100 * (after.stolen_s - before.stolen_s) / available_s,
        # Ticks are counted at different moments, so a difference may be a little below zero.
        others_percent=100 * max(0.0, others_s) / available_s,
        processors=processors,
    )


def processor_ticks_of_tree(root: int) -> int:
    """Add up the processor time of a process and its descendants, those that have ended included; in clock ticks."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for entry in _PROC.iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # The name before the last parenthesis may contain spaces and parentheses.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        pid = int(entry.name)
        children[int(fields[1])].append(pid)
        ticks[pid] = sum(int(value) for value in fields[11:15])  # utime, stime, cutime, cstime
    found, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        found += ticks.get(pid, 0)
        waiting += children[pid]
    return found
