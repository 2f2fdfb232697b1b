"""Counters: SQL Server's performance objects `Broker Statistics`, `Broker Activation`, `Broker/DBM Transport`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

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
ACTIVATION = "SQLServer:Broker Activation"
TRANSPORT = "SQLServer:Broker/DBM Transport"

# attribute -> the counters that show it, in the order of the manual
_COUNTERS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "activation_errors": ((STATISTICS, "Activation Errors Total", GAUGE),),
    "rollbacks": ((STATISTICS, "Broker Transaction Rollbacks", GAUGE),),
    "corrupted": ((STATISTICS, "Corrupted Messages Total", GAUGE),),
    "dequeued_transmission": ((STATISTICS, "Dequeued Transmission Msgs/sec", RATE),),
    "dialog_timers": ((STATISTICS, "Dialog timer event count", GAUGE),),
    "dropped": ((STATISTICS, "Dropped Messages Total", GAUGE),),
    "enqueued_local": (
        (STATISTICS, "Enqueued Local Messages Total", GAUGE),
        (STATISTICS, "Enqueued Local Messages/sec", RATE),
    ),
    "enqueued": ((STATISTICS, "Enqueued Messages Total", GAUGE), (STATISTICS, "Enqueued Messages/sec", RATE)),
    "enqueued_transmission": ((STATISTICS, "Enqueued Transmission Msgs/sec", RATE),),
    "enqueued_transport": (
        (STATISTICS, "Enqueued Transport Msg Frag Tot", GAUGE),
        (STATISTICS, "Enqueued Transport Msg Frags/sec", RATE),
        (STATISTICS, "Enqueued Transport Msgs Total", GAUGE),
        (STATISTICS, "Enqueued Transport Msgs/sec", RATE),
    ),
    "receives": ((STATISTICS, "SQL RECEIVE Total", GAUGE), (STATISTICS, "SQL RECEIVEs/sec", RATE)),
    "sends": ((STATISTICS, "SQL SEND Total", GAUGE), (STATISTICS, "SQL SENDs/sec", RATE)),
    "procedures_invoked": ((ACTIVATION, "Stored Procedures Invoked/sec", RATE),),
    "task_limit_reached": (
        (ACTIVATION, "Task Limit Reached", GAUGE),
        (ACTIVATION, "Task Limit Reached/sec", RATE),
    ),
    "tasks_aborted": ((ACTIVATION, "Tasks Aborted/sec", RATE),),
    "tasks_running": ((ACTIVATION, "Tasks Running", GAUGE),),
    "tasks_started": ((ACTIVATION, "Tasks Started/sec", RATE),),
    "fragments_received": ((TRANSPORT, "Message Fragment Receives/sec", RATE),),
    "fragments_sent": ((TRANSPORT, "Message Fragment Sends/sec", RATE),),
}


class Counters:
    """Running totals, one attribute for each."""

    activation_errors: int
    rollbacks: int
    corrupted: int
    dequeued_transmission: int
    dialog_timers: int
    dropped: int
    enqueued_local: int
    enqueued: int
    enqueued_transmission: int
    enqueued_transport: int
    receives: int
    sends: int
    procedures_invoked: int
    task_limit_reached: int
    tasks_aborted: int
    tasks_running: int
    tasks_started: int
    fragments_received: int
    fragments_sent: int

    __slots__ = (*_COUNTERS, "enqueued_by_priority")

    def __init__(self) -> None:
        for name in _COUNTERS:
            setattr(self, name, 0)
        self.enqueued_by_priority = [0] * 11

    def rows(self) -> Iterator[CounterRow]:
        """The broker's rows of sys.dm_os_performance_counters."""
        for attribute, shown in _COUNTERS.items():
            for object_name, counter_name, kind in shown:
                yield CounterRow(object_name, counter_name, "", getattr(self, attribute), kind)
        for priority in range(1, 11):
            name = f"Enqueued P{priority} Msgs/sec"
            yield CounterRow(STATISTICS, name, "", self.enqueued_by_priority[priority], RATE)
