"""An embedded instance, in its own process, whose tasks really wait for page latches.

Every change of a row of sys.sysdesend holds its page's latch for some milliseconds, so senders on one page queue up as
they do in SQL Server on many processors.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.server.authentication import self_signed_context
from harness.embedded.server.serve import InstanceServer
from harness.lab import drivers
from harness.lab.drivers import Secret
from harness.lab.embedded_instances import read_ready_line
from harness.lab.instances import Instance, Login
from harness.lab.processes import Child, stop_all
from tests.latching import LatchingPlatform

PASSWORD = "Latch!ng1"
HOLD_NS = 5 * MILLISECOND


@contextmanager
def latching_instance(folder: Path, version: str) -> Iterator[Instance]:
    folder.mkdir()
    command = [sys.executable, "-m", "tests.observe.latching_server", str(folder), version]
    child = Child("latching", command, log=folder / "server.log", pipe_stdout=True)
    try:
        ready = read_ready_line(child)
        login = Login("sa", Secret(PASSWORD))
        driver = drivers.choose("auto")
        yield Instance(
            "initiator-1",
            "master",
            ready["host"],
            ready["port"],
            0,
            driver,
            login,
            child,
            admin_port=ready["admin_port"],
        )
    finally:
        stop_all([child])


if __name__ == "__main__":
    server = InstanceServer(
        "latching",
        sys.argv[2],
        Path(sys.argv[1]),
        PASSWORD,
        self_signed_context("latching"),
        platform=lambda scheduler, waits: LatchingPlatform(scheduler, waits, hold_ns=HOLD_NS),
    )
    sys.exit(asyncio.run(server.serve("127.0.0.1", 0, admin_port=0, with_parent=True)))
