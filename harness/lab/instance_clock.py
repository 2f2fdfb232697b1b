"""The clock of the machine on which an instance runs."""

from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.machine.clocks import ClockDifference, compare


def measure(connection: Connection) -> ClockDifference:
    """Compare it with this machine's."""
    return compare(lambda: int(scripts.rows(connection, "doctor/clock.sql", {})[0]["utc_ns"]))
