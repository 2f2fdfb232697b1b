"""The phases of a cell: what is shown of them, and how long each took."""

import contextlib
import time
from collections.abc import Iterator

from harness.lab import interruption
from harness.output.reporting import Reporter


class Phases:
    """The seconds of each phase of a cell, in the order in which phases first began; a phase entered twice adds up."""

    def __init__(self, cell: str = "", reporter: Reporter | None = None) -> None:
        self.seconds: dict[str, float] = {}
        self.cell = cell
        self.reporter = reporter or Reporter()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        interruption.check()
        self.reporter.phase(f"{self.cell}: {name}")
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - began, 4)
