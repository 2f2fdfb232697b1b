"""How long a single commit takes on each instance: what the disk of its log is worth, before anything is measured.

Every message is in some commit, and a commit waits for the log: nothing explains the waits of type WRITELOG better. One
connection commits 100 rows (10 on the embedded broker), one after another, while nothing else runs on the lab; one
instance after another, as their logs may share a disk. What a client waits for a commit contains a round trip, which
`lab.instance_clock` has measured. What the instance waited is read from its own totals, without a distribution.

No table is created in a database that existed before the lab.

How SQL Server on Linux flushes the log decides how much of the time is the disk's. Microsoft advises forced unit access
where device, filesystem and kernel support it, and otherwise a flush behind each write: "Performance best practices and
configuration guidelines for SQL Server on Linux",
https://learn.microsoft.com/sql/linux/sql-server-linux-performance-best-practices

The harness reads these settings in its own containers (`harness.lab.log_storage`). Of a user's server the manual names
no view that shows mssql.conf, a filesystem of Linux, or the governor of processors. Containers print "ForceFlush is
enabled for this instance.", without the time that entries of the error log have
(https://github.com/microsoft/mssql-docker/issues/776); trace flag 3979, which is read anyway, turns that off
(https://github.com/microsoft/mssql-docker/issues/463). A probe in tests/conformance asks SQL Server for more.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.definitions.lab_kinds import PROBE_COMMITS, LabKind
from harness.doctor.facts import HOST, TRACE_FLAGS, Facts, Finding
from harness.files.script_text import ScriptError
from harness.lab import placement, scripts
from harness.lab.drivers import Connection
from harness.lab.scripts import is_refusal
from harness.machine.clocks import ClockDifference

CHECK = "commits"

_NO_FORCED_FLUSH = 3979  # the trace flag: SQL Server leaves flushing to the system
# writethrough, alternatewritethrough, and whether the trace flag is on: the two that Microsoft advises.
_FORCED_UNIT_ACCESS, _FLUSHED = (1, 0, True), (1, 1, False)
_FORCED_UNIT_ACCESS_SINCE = {"xfs": (4, 18), "ext4": (5, 6)}  # Linux


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """Microseconds of single commits on one connection."""

    calls_us: Sequence[float]  # as a client waits for each
    round_trip_us: float  # of a call that commits nothing
    writelog_us: float | None  # mean of the instance's waits; None if it does not show them

    def __str__(self) -> str:
        number, slow = len(self.calls_us), f"slowest {max(self.calls_us):,.0f} us"
        if number >= PROBE_COMMITS:
            slow = f"p99 {statistics.quantiles(self.calls_us, n=100, method='inclusive')[-1]:,.0f} us"
        text = f"a commit of one row takes {statistics.median(self.calls_us):,.0f} us ({slow}, of {number}), "
        text += f"with a round trip of {self.round_trip_us:,.0f} us; "
        if self.writelog_us is None:
            return f"{text}its WRITELOG is not shown to this login"
        return f"{text}WRITELOG is {self.writelog_us:,.0f} us of it on average"


def measure(
    side: Facts, connection: Connection, clock: ClockDifference, *, commits: int = PROBE_COMMITS
) -> CommitTimes:
    """Commit so many rows in a table of its own, which is removed again; `clock` is of the same connection."""
    database = {"Database": side.instance.database}
    scripts.run(connection, "doctor/commit_table.sql", database)
    try:
        before, calls_us = _writelog(connection), []
        for _ in range(commits):
            began_ns = time.perf_counter_ns()
            scripts.run(connection, "doctor/commit.sql", {})
            calls_us.append((time.perf_counter_ns() - began_ns) / 1000)
        after = _writelog(connection)
    finally:
        scripts.run(connection, "doctor/drop_commit_table.sql", database)
    waited_us = None
    if before and after:
        tasks, wait_ms = (last - first for first, last in zip(before, after, strict=True))
        waited_us = 1000 * wait_ms / max(1, tasks)
    return CommitTimes(calls_us, clock.round_trip_ns / 1000, waited_us)


def _writelog(connection: Connection) -> tuple[int, int] | None:
    """Return how often and for how many milliseconds the instance has waited for its logs; None if it does not say."""
    try:
        [row] = scripts.rows(connection, "doctor/commit_waits.sql", {})
    except ScriptError as error:
        if not is_refusal(error):
            raise
        return None
    return int(row["waiting_tasks"] or 0), int(row["wait_time_ms"] or 0)


def check(side: Facts, connection: Connection, clock: ClockDifference, *, kind: LabKind) -> Iterator[Finding]:
    """Report what single commits take on an instance."""
    if side.instance.is_existing:
        return
    try:
        times = measure(side, connection, clock, commits=kind.probe_commits)
    except ScriptError as reason:
        remedy = "give the login db_owner in the lab's databases"
        yield side.warning(CHECK, f"no single commits could be timed: {reason}", remedy)
        return
    where = "" if kind.can.is_measurement else "on the embedded broker, not SQL Server, "
    yield side.information(CHECK, f"{where}{times}")


def check_flushing(side: Facts) -> Iterator[Finding]:
    """Report how an instance on Linux flushes its log to the device, or which commands show it on a user's server."""
    if not side.knows(TRACE_FLAGS):
        return
    is_flag_on = any(row["TraceFlag"] == _NO_FORCED_FLUSH and row["Status"] for row in side.rows(TRACE_FLAGS))
    flag = f"trace flag {_NO_FORCED_FLUSH} {'on' if is_flag_on else 'off'}"
    storage = side.instance.log_storage
    if storage is None:
        yield from _not_shown(side, flag)
        return
    flushing = storage.flushing
    if flushing is None:
        return
    settings = {"writethrough": flushing.writethrough, "alternatewritethrough": flushing.alternatewritethrough}
    first, second = (1 if value is None else value for value in settings.values())
    words = [f"{name} {'1 by default' if value is None else value}" for name, value in settings.items()]
    storage_text = ", ".join((*words, flag, f"{flushing.filesystem} {flushing.mount_options}"))
    kernel = _FORCED_UNIT_ACCESS_SINCE.get(flushing.filesystem)
    is_supported = kernel is not None and storage.kernel_version >= kernel
    if (first, second, is_flag_on) == _FLUSHED:
        text = f"a commit waits until its log is flushed to the device with fdatasync ({storage_text})"
        remedy = f"if the device supports forced unit access, {_remedy(*_FORCED_UNIT_ACCESS)}" if is_supported else ""
        yield side.information(CHECK, text, remedy)
    elif (first, second, is_flag_on) == _FORCED_UNIT_ACCESS and is_supported:
        how = f"by forced unit access if that supports it ({storage_text})"
        text = f"a commit waits until its log is on the device, {how}"
        yield side.information(CHECK, text)
    else:
        text = f"the log is not flushed as Microsoft advises ({storage_text})"
        if not first:
            text += ": a commit may return before its log is on the device"
        yield side.warning(CHECK, text, _remedy(*_FLUSHED))


def _not_shown(side: Facts, flag: str) -> Iterator[Finding]:
    host = side.row(HOST)
    if host is None or host["host_platform"] != "Linux":
        return
    text = (
        f"how the log is flushed is not known ({flag}): SQL Server on Linux shows neither mssql.conf nor the filesystem"
    )
    remedy = (
        "look on its machine: sudo grep writethrough /var/opt/mssql/mssql.conf (what is missing there is 1); "
        "findmnt -T /var/opt/mssql/data"
    )
    if not placement.is_here(side.instance.host):  # this machine's governor is read
        text += ", nor the governor of its processors"
        remedy += "; cpupower frequency-info"
    yield side.information(CHECK, text, remedy)


def _remedy(first: int, second: int, is_flag_on: bool) -> str:
    return (
        f"with /opt/mssql/bin/mssql-conf: set control.writethrough {first}, set control.alternatewritethrough {second}"
        f", traceflag {_NO_FORCED_FLUSH} {'on' if is_flag_on else 'off'}; then restart the container"
    )
