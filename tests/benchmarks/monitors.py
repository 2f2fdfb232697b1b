"""What `harness monitors` costs the server that it watches, by the server's own processor time.

An embedded instance has a thousand queues with a million messages between them, which nobody reads: the worst case, as
there is a reason to find for each; then a million conversations more, which nobody ends. The goal is at most one per cent
of a core at one look a second, and three with the conversations.
"""

import itertools
import os
import tempfile
import time
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from harness.lab import drivers, embedded_instances
from harness.lab.instances import Instance
from harness.lab.processes import Child
from harness.monitors import watching
from harness.monitors.reading import Reader
from harness.output.reporting import SafeConsole

GOAL, GOAL_WITH_CONVERSATIONS = 0.01, 0.03
_TICKS = os.sysconf("SC_CLK_TCK")
_FILL = """
DECLARE @h uniqueidentifier, @n int = 0;
BEGIN TRANSACTION;
BEGIN DIALOG @h FROM SERVICE [Service0] TO SERVICE N'Service{number}' WITH ENCRYPTION = OFF;
WHILE @n < {messages}
BEGIN
    SEND ON CONVERSATION @h (0x01);
    SET @n = @n + 1;
END;
COMMIT;
"""


_BEGIN = """
DECLARE @h uniqueidentifier, @n int = 0;
BEGIN TRANSACTION;
WHILE @n < {conversations}
BEGIN
    BEGIN DIALOG @h FROM SERVICE [Service{number}] TO SERVICE N'Service0' WITH ENCRYPTION = OFF;
    SET @n = @n + 1;
END;
COMMIT;
"""


@dataclass(frozen=True)
class Size:
    queues: int
    messages: int  # in each of them
    conversations: int  # of each service, begun without a message
    watch_s: float


FULL = Size(1000, 1000, 1000, 120.0)
SMALLEST = Size(3, 10, 10, 1.0)


def processor_time_s(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def fill(instance: Instance, size: Size) -> None:
    connection = instance.connect("master")
    connection.execute("CREATE DATABASE many;")
    connection.execute("USE many;")
    for number in range(size.queues):
        queue = (
            f"CREATE QUEUE dbo.Queue{number}; CREATE SERVICE [Service{number}] ON QUEUE dbo.Queue{number} ([DEFAULT]);"
        )
        connection.execute(queue)
        connection.execute(_FILL.format(number=number, messages=size.messages))
    connection.close()


def main(size: Size = FULL) -> None:
    driver = drivers.choose("microsoft")
    with (
        tempfile.TemporaryDirectory() as folder,
        embedded_instances.running(version="2008", initiators=0, directory=Path(folder), driver=driver) as lab,
    ):
        assert isinstance(lab.target.process, Child)
        pid = lab.target.process.pid
        fill(lab.target, size)
        contents = f"{size.queues:,} queues with {size.queues * size.messages:,} messages"
        _watch(lab.target, pid, size.watch_s, contents, GOAL)
        with closing(lab.target.connect("many")) as connection:
            for number in range(size.queues):
                connection.execute(_BEGIN.format(number=number, conversations=size.conversations))
        contents += f" and {size.queues * size.conversations:,} conversations more"
        _watch(lab.target, pid, size.watch_s, contents, GOAL_WITH_CONVERSATIONS)


def _watch(instance: Instance, pid: int, watch_s: float, contents: str, goal: float) -> None:
    time.sleep(watch_s / 4)  # what the filling has left to do
    before_s = processor_time_s(pid)
    time.sleep(watch_s / 2)
    idle = (processor_time_s(pid) - before_s) / (watch_s / 2)
    reader = Reader(instance)
    before_s = processor_time_s(pid)
    reader.look()
    first_s = processor_time_s(pid) - before_s
    looks = itertools.count(-1)
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = SafeConsole(file=nowhere, force_terminal=True, width=120, height=40)
        before_s, begun = processor_time_s(pid), time.monotonic()
        watching.watch(
            [reader], console, every_s=1.0, is_over=lambda: next(looks) >= 0 and time.monotonic() - begun >= watch_s
        )
        lasted_s = time.monotonic() - begun
    used = (processor_time_s(pid) - before_s) / lasted_s
    reader.close()
    print(
        f"monitors of {contents}: {100 * (used - idle):.2f} % of "
        f"a core of the server (goal {goal:.0%}; without the view {100 * idle:.2f} %), {lasted_s / next(looks):.2f} s from "
        f"look to look; the first look took {first_s:.2f} s of processor time"
    )


if __name__ == "__main__":
    main()
