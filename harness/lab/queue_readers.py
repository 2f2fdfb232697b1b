"""The queue readers that activation has started at the target: how many run, and waiting until they have ended.

A cell's rate depends on its readers, and it would inherit those of the cell before. The queue monitor adds one every
five seconds while messages are left over, and a reader ends after three seconds without a message
(RECEIVE_TIMEOUT_MS). So before every cell a lab of servers waits until at most one reader is left. From one reader, the
queue monitor launches those that the cell's own load needs while the cell settles, as it did in the paper's runs.

One reader and none are the same state, because the first message launches one at once. So after most short cells there
is nothing to wait for, and after the others three seconds. Launching all readers in advance would take 80 seconds for
each cell: they end while the messages of a cell are drained and counted. In the model those seconds are cheap, so
there every cell begins with all readers (`simulation.simulated_cell`).
"""

from harness.definitions.units import counted
from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Lab, LabError

AT_REST = 1  # readers, at most
END_WITHIN_S = 30.0  # beyond their timeout: a reader may still process what it has received
_POLL_S = 0.05


def running(target: Connection, queue: str) -> int:
    """Count the readers of the target's queue."""
    return sum(int(row["tasks"]) for row in scripts.poll(target, "observe/activated_tasks.sql", {"Queue": queue}))


def wait_until_at_most(most: int, lab: Lab, target: Connection, *, timeout_s: float) -> None:
    """Wait until so many readers or fewer are left. Nothing may be sent meanwhile. LabError if they do not end."""
    deadline_s = lab.clock.now_s() + timeout_s
    while (left := running(target, lab.target.queue)) > most:
        lab.check()
        if lab.clock.now_s() > deadline_s:
            raise LabError(f"{counted(left, 'reader')} of the target's queue did not end within {timeout_s:g} s")
        lab.clock.sleep(_POLL_S)
