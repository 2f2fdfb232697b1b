"""What the user sees of a sweep: a progress bar on a terminal, a plain line per cell elsewhere."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

_REMEMBERED_CELLS = 40


class Reporter(Protocol):
    """Told by the sweep what happens."""

    def begin(self, total: int, done: int) -> None: ...
    def phase(self, what: str) -> None: ...
    def rate(self, messages_per_s: float) -> None: ...
    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None: ...
    def note(self, text: str) -> None: ...


class Silent:
    """For tests and single cells."""

    def begin(self, total: int, done: int) -> None: ...
    def phase(self, what: str) -> None: ...
    def rate(self, messages_per_s: float) -> None: ...
    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None: ...
    def note(self, text: str) -> None: ...


class Left(Protocol):
    """How long the rest takes."""

    def start(self, now_s: float) -> None: ...
    def cell_done(self, now_s: float, cell: str) -> None: ...
    def left_s(self, cells: int) -> float | None: ...


class TimeLeft:
    """From the time that the last cells took; nothing until one is done."""

    def __init__(self) -> None:
        self._ends: deque[float] = deque(maxlen=_REMEMBERED_CELLS)

    def start(self, now_s: float) -> None:
        self._ends.append(now_s)

    def cell_done(self, now_s: float, cell: str) -> None:
        self._ends.append(now_s)

    def left_s(self, cells: int) -> float | None:
        if len(self._ends) < 2:
            return None
        return (self._ends[-1] - self._ends[0]) / (len(self._ends) - 1) * cells


class WorkLeft:
    """Of cells that differ much: from the time that the work took which was done since the first of them ended, as
    what comes before that is preparation. `work` is each open cell's share."""

    def __init__(self, work: Mapping[str, float]) -> None:
        self._open = dict(work)
        self._at_first: tuple[float, float] | None = None  # when the first cell ended, and what was left then
        self._now_s = 0.0

    def start(self, now_s: float) -> None: ...

    def cell_done(self, now_s: float, cell: str) -> None:
        self._open.pop(cell, None)
        self._now_s = now_s
        self._at_first = self._at_first or (now_s, sum(self._open.values()))

    def left_s(self, cells: int) -> float | None:
        if self._at_first is None:
            return None
        first_s, left_then = self._at_first
        left = sum(self._open.values())
        return (self._now_s - first_s) * left / (left_then - left) if left < left_then else None


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


class PlainLines:
    """One line a cell, for logs and pipes."""

    def __init__(self, console: Console, left: Left | None = None) -> None:
        self._console = console
        self._total = 0
        self._left = left or TimeLeft()

    def begin(self, total: int, done: int) -> None:
        self._total = total
        self._left.start(time.monotonic())
        if done:
            self.note(f"{done} of {total} cells are done already")

    def phase(self, what: str) -> None: ...

    def rate(self, messages_per_s: float) -> None: ...

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self._left.cell_done(time.monotonic(), cell)
        left = self._left.left_s(self._total - number)
        ending = f", {duration(left)} left" if left is not None and number < self._total else ""
        self.note(f"cell {number} of {self._total}: {cell} {outcome}: {text}{ending}")

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)


class Bar:
    """Cell k of n, what runs now, messages per second, time left; failures stay on the screen above the bar."""

    def __init__(self, console: Console, left: Left | None = None) -> None:
        self._progress = Progress(
            TextColumn("cell"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TextColumn("[bold]{task.fields[rate]}"),
            TextColumn("{task.fields[phase]}", markup=False),
            console=console,
        )
        self._live = Live(self._progress, console=console, refresh_per_second=4, transient=False)
        self._console = console
        self._task: TaskID | None = None
        self._left = left or TimeLeft()
        self._total = 0

    def __enter__(self) -> Bar:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()

    def begin(self, total: int, done: int) -> None:
        self._total = total
        self._task = self._progress.add_task("", total=total, completed=done, left="", rate="", phase="")
        self._left.start(time.monotonic())

    def phase(self, what: str) -> None:
        self._update(phase=what)

    def rate(self, messages_per_s: float) -> None:
        self._update(rate=f"{messages_per_s:,.0f} messages/s")

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self._left.cell_done(time.monotonic(), cell)
        left = self._left.left_s(self._total - number)
        self._update(completed=number, left=f"{duration(left)} left" if left is not None else "")
        if outcome != "completed":
            self.note(f"{cell} {outcome}: {text}")

    def note(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False)

    def _update(self, **fields: object) -> None:
        if self._task is not None:
            self._progress.update(self._task, **fields)  # type: ignore[arg-type]
