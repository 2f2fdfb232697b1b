"""What else this machine did while a cell was measured: load average, time that the hypervisor took, other processes.

Read at both ends of the window. The run's own processes are this one and its descendants: clients, and the
instances of the embedded lab. Other instances on this machine are the run's too; they say themselves how much processor
time they used (record `processors`).
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass

import psutil


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
    def now(cls) -> MachineTotals:
        machine, own_s = psutil.cpu_times(), processor_s_of_tree(psutil.Process())
        return cls(time.monotonic(), machine.user + machine.nice + machine.system, machine.steal, own_s)


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


def others_percent(seconds: float) -> float:
    """Return what other processes use of all processors' time, over so many seconds in which this run does nothing."""
    before = MachineTotals.now()
    time.sleep(seconds)
    return machine_use(before, MachineTotals.now(), instances_s=0.0).others_percent


def processor_s_of_tree(root: psutil.Process) -> float:
    """Add up the processor time of a process and its descendants, those that have ended included."""
    spent_s = 0.0
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            spent = process.cpu_times()
            spent_s += spent.user + spent.system + spent.children_user + spent.children_system
    return spent_s
