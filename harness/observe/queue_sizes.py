"""The size of each side's queue and transmission queue before each cell, with its conversations and memory, and what
makes all cells begin alike.

RECEIVE deletes rows, which stay on their pages as ghost records until a task of the server removes them. A queue with
many of them is slower, so one that has grown is rebuilt. A checkpoint writes the pages that the cell before changed,
which would else be written in the window of the next.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Literal, NamedTuple

from harness.definitions.units import counted
from harness.failures import MachineFailure
from harness.lab import scripts
from harness.lab.instances import Instance, Lab, in_parallel

NAME = "queue-sizes.csv"  # of a run
QUERY_TIMEOUT_S = 60

SMALL_PAGES = 2048  # 16 MB
SMALL_GHOST_RECORDS = 10_000

Moment = Literal["before", "rebuilt"]


class Size(NamedTuple):
    """A row of sql/observe/queue_size.sql. None: the instance does not show it."""

    messages: int | None
    pages: int | None  # of 8 KB
    ghost_records: int | None
    transmission_pages: int | None  # of 8 KB, of the database's transmission queue
    conversations: int | None = None  # conversation endpoints of the database
    memory_mib: int | None = None  # of the server's process

    def __str__(self) -> str:
        return f"{counted(self.pages or 0, 'page')} and {counted(self.ghost_records or 0, 'ghost record')}"

    def has_grown(self, first: Size) -> bool:
        """Whether it is an empty queue with more than twice what it had at first, beyond a size that matters."""
        return self.messages == 0 and (
            (self.pages or 0) > max(2 * (first.pages or 0), SMALL_PAGES)
            or (self.ghost_records or 0) > max(2 * (first.ghost_records or 0), SMALL_GHOST_RECORDS)
        )


_COLUMNS = ("cell", "moment", "instance", *Size._fields, "sampled_at_ns")


class QueueSizes:
    """Make it when a lab is open. Its methods raise no MachineFailure: the measurement does not need them."""

    def __init__(self, lab: Lab, tell: Callable[[str], None], *, rebuilds: bool = True) -> None:
        """Without `rebuilds` queues stay as they are: a soak shows how they grow."""
        self._instances = lab.instances
        self._now_ns = lab.clock.utc_ns
        self._tell = tell
        self._rebuilds = rebuilds
        self._first: dict[str, Size] = {}

    def cell_begins(self, cell: str, results: Path) -> None:
        """Record sizes, and let each database write its changed pages, unless it existed before the lab.

        A queue that has grown since the first cell is rebuilt, unless it existed before.
        """
        sizes = self._record(cell, "before", results, self._instances)
        rebuilt = []
        for instance in self._instances if self._rebuilds else ():
            size = sizes.get(instance.name)
            if size is None or not size.has_grown(first := self._first.setdefault(instance.name, size)):
                continue
            grown = f"before {cell} the empty queue of {instance.name} has {size}, at first it had {first}"
            if "QUEUE" in instance.kept:
                self._tell(f"{grown}; it existed before the lab, so it is not rebuilt")
                continue
            try:
                self._rebuild(instance)
            except MachineFailure as error:
                self._tell(f"{grown}; it could not be rebuilt: {error}")
            else:
                self._tell(f"{grown}; it was rebuilt")
                rebuilt.append(instance)
        self._record(cell, "rebuilt", results, rebuilt)
        in_parallel(self._checkpoint, [instance for instance in self._instances if not instance.is_existing])

    def _record(self, cell: str, moment: Moment, results: Path, instances: Sequence[Instance]) -> dict[str, Size]:
        """Add a row for each instance that shows its queue's size, and return the sizes by instance."""
        rows = zip(instances, in_parallel(self._size, instances), strict=True)
        sizes = {instance.name: size for instance, size in rows if size is not None}
        if not sizes:
            return sizes
        path = results / NAME
        is_new = not path.exists()
        with path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow(_COLUMNS)
            writer.writerows((cell, moment, name, *size, self._now_ns()) for name, size in sizes.items())
        return sizes

    def _size(self, instance: Instance) -> Size | None:
        try:
            with closing(instance.connect(query_timeout_s=QUERY_TIMEOUT_S)) as connection:
                [row] = scripts.rows(connection, "observe/queue_size.sql", instance.variables)
        except MachineFailure as error:
            self._tell(f"the size of the queue of {instance.name} is not recorded: {error}")
            return None
        return Size(**row)

    @staticmethod
    def _rebuild(instance: Instance) -> None:
        with closing(instance.connect()) as connection:
            scripts.run(connection, "reset/queue.sql", instance.variables)

    def _checkpoint(self, instance: Instance) -> None:
        try:
            with closing(instance.connect()) as connection:
                scripts.run(connection, "reset/checkpoint.sql", instance.variables)
        except MachineFailure as error:
            self._tell(f"no checkpoint on {instance.name}: {error}")
