"""What `harness monitors` costs the server that it watches, by the server's own processor time.

An embedded instance has a thousand queues with a million messages between them, which nobody reads: the worst case, as
there is a reason to find for each. The goal is at most one per cent of a core at one look a second.
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness.lab import drivers, embedded_instances
from harness.lab.instances import Instance
from harness.lab.processes import Child
from harness.monitors import watching
from harness.monitors.reading import Reader
from harness.output.reporting import SafeConsole

GOAL = 0.01
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


@dataclass(frozen=True)
class Size:
    queues: int
    messages: int  # in each of them
    watch_s: float


FULL = Size(1000, 1000, 120.0)
SMALLEST = Size(3, 10, 1.0)


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
        time.sleep(size.watch_s / 4)  # what the filling has left to do
        before_s = processor_time_s(pid)
        time.sleep(size.watch_s / 2)
        idle = (processor_time_s(pid) - before_s) / (size.watch_s / 2)
        reader = Reader(lab.target)
        before_s = processor_time_s(pid)
        reader.look()
        first_s = processor_time_s(pid) - before_s
        looks = itertools.count(-1)
        with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
            console = SafeConsole(file=nowhere, force_terminal=True, width=120, height=40)
            before_s, begun = processor_time_s(pid), time.monotonic()
            watching.watch(
                [reader],
                console,
                every_s=1.0,
                is_over=lambda: next(looks) >= 0 and time.monotonic() - begun >= size.watch_s,
            )
            lasted_s = time.monotonic() - begun
        used = (processor_time_s(pid) - before_s) / lasted_s
        reader.close()
    print(
        f"monitors of {size.queues:,} queues with {size.queues * size.messages:,} messages: {100 * (used - idle):.2f} % of "
        f"a core of the server (goal {GOAL:.0%}; without the view {100 * idle:.2f} %), {lasted_s / next(looks):.2f} s from "
        f"look to look; the first look took {first_s:.2f} s of processor time"
    )


if __name__ == "__main__":
    main()
