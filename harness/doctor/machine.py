"""Check the machines: their clocks, and the processors and disks that instances share.

What a cell does about clocks that differ, `harness.run.cell_clocks` says.

Instances that share processors or a disk slow each other down, which separate machines would not
(`harness.lab.placement`). In a container SQL Server may count processors that it cannot use.
"""

from collections.abc import Iterator

from harness.definitions import units
from harness.definitions.whitepaper import INITIATOR_SCHEDULERS
from harness.doctor.facts import Facts, Finding
from harness.lab import placement
from harness.lab.instances import Lab
from harness.lab.placement import PROCESSORS, Placement
from harness.load.plan import ROUND_TRIP_MS_MAX
from harness.machine.clocks import ClockDifference

CLOCK_TOLERANCE_NS = 1_000_000_000  # for a difference beyond its uncertainty


def check_clock(side: Facts, measured: ClockDifference) -> Iterator[Finding]:
    difference_ns, uncertainty_ns = measured.difference_ns, measured.uncertainty_ns
    text = f"the clock differs from this machine's by {difference_ns / 1e6:+z.2f} ms, ± {uncertainty_ns / 1e6:.2f} ms"
    if side.name == "target" and measured.known_ns:
        text += ", by which a cell moves its times"
    if abs(difference_ns) - uncertainty_ns > CLOCK_TOLERANCE_NS:
        remedy = "synchronise both (chrony, w32tm): lifetimes of dialogs and certificates go by each server's clock"
        yield side.warning("clock", text, remedy)
    else:
        yield side.information("clock", text)


def check_round_trip(side: Facts, measured: ClockDifference) -> Iterator[Finding]:
    """Check that the way from this machine to an initiator does not decide how much its clients send."""
    round_trip_ms = measured.round_trip_ns / 1e6
    if round_trip_ms > ROUND_TRIP_MS_MAX:
        text = (
            f"a round trip from this machine takes {round_trip_ms:.1f} ms: a client thread here makes at most "
            f"{1000 / round_trip_ms:,.0f} calls/s, whatever the server could do"
        )
        remedy = "run the harness, or its workers (harness worker), on a machine near the initiators"
        yield side.warning("network", text, remedy)


NOT_MEASURED = "claims about processors, linear growth and the bottleneck are not measured"
_REMEDIES = {
    placement.PROCESSORS: "use a machine with a core for each instance and one for the clients, or a server for each "
    "instance (lab.toml); remove containers that run already (harness lab down)",
    placement.DISK: "use a server for each instance (lab.toml)",
}


def check_placement(lab: Lab) -> Iterator[Finding]:
    """Check that no instance takes processors or a disk from another."""
    if PROCESSORS not in lab.placement.shared:
        yield Finding("information", "lab", PROCESSORS, str(lab.placement).partition(": ")[2])
    for shared_part, why in lab.placement.shared.items():
        text = f"{why}: {NOT_MEASURED}"
        if not lab.kind.can.is_measurement:  # as it is meant to be, and told with every number of it
            yield Finding("information", "lab", shared_part, text)
        else:
            yield Finding("warning", "lab", shared_part, text, _REMEDIES[shared_part])
    if lab.placement.proxied:
        text = "clients reach the containers through Docker's proxy, which takes processor time and adds to latencies"
        remedy = "run Docker's engine on this machine, as root, and let this host reach the addresses of its networks"
        yield Finding("warning", "lab", "proxy", f"{text}: {lab.placement.proxied}", remedy)


def check_governor(lab: Lab) -> Iterator[Finding]:
    """Check that this machine's processors do not follow the load with their speed.

    Microsoft advises the governor `performance` for SQL Server on Linux, with the profile of tuned for it. Source:
    https://learn.microsoft.com/sql/linux/sql-server-linux-performance-best-practices
    """
    governor = placement.scaling_governor()
    if governor in ("", placement.FULL_SPEED):
        return
    text = f"the speed of this machine's processors is governed by {governor}: it follows the load, from cell to cell"
    if not lab.kind.can.is_measurement:  # for trying the harness, on any machine
        yield Finding("information", "lab", "power", text)
    else:
        remedy = f"sudo cpupower frequency-set --governor {placement.FULL_SPEED}"
        yield Finding("warning", "lab", "power", text, remedy)


def check_schedulers(side: Facts) -> Iterator[Finding]:
    """Check that an initiator has as many schedulers as the paper's."""
    row = side.row("edition")
    if row is None or row["scheduler_count"] >= INITIATOR_SCHEDULERS:
        return
    text = (
        f"has {units.counted(row['scheduler_count'], 'scheduler')}, and the paper's initiators had "
        f"{INITIATOR_SCHEDULERS}: claims about gain, contention and threads are not measured"
    )
    remedy = "give it more processors: ask for one initiator (MSSQL_INITIATORS=1), or use a server for each instance"
    yield side.warning("schedulers", text, remedy)


def check_processors(side: Facts, where: Placement) -> Iterator[Finding]:
    """Check that an instance with processors of its own counts these and no others.

    With a limit of cgroup v2 SQL Server goes on counting all processors of the machine, and has a scheduler for each.
    Nothing says so of a cpuset. Source:
    https://learn.microsoft.com/sql/linux/sql-server-linux-docker-container-configure
    """
    cpus, row = where.processors.get(side.name, ""), side.row("edition")
    if not cpus or row is None:
        return
    number, counted, schedulers = len(placement.parse(cpus)), row["cpu_count"], row["scheduler_count"]
    text = f"has {units.counted(number, 'processor')} ({cpus}), counts {counted} and schedules on {schedulers}"
    if counted != number:
        text += f": its processor time is in percent of {counted}"
    if schedulers == number:
        yield side.information(PROCESSORS, text)
        return
    affinity = cpus.replace("-", " TO ").replace(",", ", ")
    yield side.warning(PROCESSORS, text, f"ALTER SERVER CONFIGURATION SET PROCESS AFFINITY CPU = {affinity};")
