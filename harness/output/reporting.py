"""Reports to the user during a run: one `Reporter` goes along and shows a bar on a terminal, plain lines elsewhere."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import click
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.text import Text

from harness.definitions.lab_kinds import LabKind
from harness.output.safe_text import visible, visible_lines

_REMEMBERED_CELLS = 40


class SafeConsole(Console):
    """Prints text as it is: no markup, and nothing that a terminal would obey. Styles are for `styled`.

    In a notebook the lines of a cell are one output, as those of `print` are, and not an output each.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, highlight=False, force_jupyter=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def styled(text: str, style: str) -> Text:
    """Return the text for `SafeConsole`, in a style."""
    return Text(visible(text), style=style)


def in_lines(text: str) -> Text:
    """Return the text for a cell of a table of `SafeConsole`, with its ends of lines."""
    return Text(visible_lines(text))


class TimeLeft(Protocol):
    """An estimate of how long the remaining cells take."""

    def start(self, now_s: float) -> None: ...
    def cell_done(self, now_s: float, cell: str) -> None: ...
    def left_s(self, cells: int) -> float | None: ...


class TimeLeftByCells:
    """Estimates from the time that the last cells took; None until one is done."""

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


class TimeLeftByWork:
    """Estimates for cells that differ much, from the work done since the first of them ended: what comes before that is
    preparation. `work` is each open cell's share."""

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
    whole_s = round(seconds)
    if whole_s < 60:
        return f"{whole_s} s"
    if whole_s < 3600:
        return f"{whole_s // 60} min {whole_s % 60:02} s"
    return f"{whole_s // 3600} h {whole_s % 3600 // 60:02} min"


class Reporter:
    """The user's view of a run. This one shows nothing and confirms everything."""

    def note(self, text: str) -> None:
        """Show a line that stays."""

    def confirm(self, question: str) -> bool:
        """Ask the user, where one can answer."""
        return True

    def sweep(self, results: Path, cells: Sequence[str], kind: LabKind) -> None:
        """Say which cells will run, in their order, where their results go, and on which kind of lab."""

    def begin(
        self, total: int, completed: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1
    ) -> None:
        """Start to count cells, or other units, of which `done` need no further run and `every` so many get a line."""

    def phase(self, text: str) -> None:
        """Show what happens now."""

    def rate(self, messages_per_s: float) -> None:
        """Show how fast clients send."""

    def sampled(self, instance: str, at_ns: int, samples: Sequence[tuple[str, str, float]]) -> None:
        """Get what an instance's observer has sampled: metrics, labels and values. Called in the observer's thread."""

    def recorded(self, records: Mapping[str, Mapping[str, Any]], window_ns: range) -> None:
        """Get the records of a cell by kind and column, and its measured window."""

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        """Show what became of a cell."""

    def end(self) -> None:
        """Stop to count cells."""


class Forwarding(Reporter):
    """Passes everything on to another reporter: for one that does something with it besides."""

    def __init__(self, to: Reporter) -> None:
        self._to = to

    def note(self, text: str) -> None:
        self._to.note(text)

    def confirm(self, question: str) -> bool:
        return self._to.confirm(question)

    def sweep(self, results: Path, cells: Sequence[str], kind: LabKind) -> None:
        self._to.sweep(results, cells, kind)

    def begin(
        self, total: int, completed: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1
    ) -> None:
        self._to.begin(total, completed, left, unit=unit, every=every)

    def phase(self, text: str) -> None:
        self._to.phase(text)

    def rate(self, messages_per_s: float) -> None:
        self._to.rate(messages_per_s)

    def sampled(self, instance: str, at_ns: int, samples: Sequence[tuple[str, str, float]]) -> None:
        self._to.sampled(instance, at_ns, samples)

    def recorded(self, records: Mapping[str, Mapping[str, Any]], window_ns: range) -> None:
        self._to.recorded(records, window_ns)

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self._to.cell_done(number, cell, outcome, text)

    def end(self) -> None:
        self._to.end()


class Notes(Reporter):
    """Shows only notes: for a single cell."""

    def __init__(self, console: SafeConsole | None = None, *, ask: bool = True) -> None:
        self._console = console or SafeConsole()
        self._ask = ask
        self._total = 0
        self._unit, self._every = "cell", 1
        self._left: TimeLeft = TimeLeftByCells()

    def note(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def confirm(self, question: str) -> bool:
        return not (self._ask and sys.stdin.isatty()) or click.confirm(question)

    def begin(
        self, total: int, completed: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1
    ) -> None:
        self._total = total
        self._unit, self._every = unit, every
        self._left = left or TimeLeftByCells()
        self._left.start(time.monotonic())

    def _left_after(self, number: int, cell: str) -> str:
        self._left.cell_done(time.monotonic(), cell)
        left = self._left.left_s(self._total - number)
        return f"{duration(left)} left" if left is not None and number < self._total else ""


class Lines(Notes):
    """Shows one line a cell: for logs and pipes."""

    def begin(
        self, total: int, completed: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1
    ) -> None:
        super().begin(total, completed, left, unit=unit, every=every)
        if completed:
            self.note(f"{completed} of {total} {unit}s are done already")

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        left = self._left_after(number, cell)
        if number % self._every:
            return
        line = f"{cell} {outcome}{text and f': {text}'}{left and f', {left}'}"
        self.note(f"{self._unit} {number} of {self._total}: {line}")


class Bar(Notes):
    """Shows cell k of n, the phase, messages per second and time left; failures stay on the screen above the bar."""

    def __init__(self, console: SafeConsole | None = None, *, ask: bool = True) -> None:
        super().__init__(console, ask=ask)
        self._progress = Progress(
            TextColumn("{task.fields[unit]}"),
            MofNCompleteColumn(),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[left]}"),
            TextColumn("[bold]{task.fields[rate]}"),
            TextColumn("{task.fields[phase]}", markup=False),
            console=self._console,
        )
        self._live = Live(self._progress, console=self._console, refresh_per_second=4, transient=False)
        self._task: TaskID | None = None

    def begin(
        self, total: int, completed: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1
    ) -> None:
        super().begin(total, completed, left, unit=unit, every=every)
        self._update(left="", rate="", phase="")  # of what was counted before
        if self._task is not None and not self._live.is_started:
            self._progress.remove_task(self._task)  # its bar is on the screen already
        self._task = self._progress.add_task(
            "", total=total, completed=completed, unit=unit, left="", rate="", phase=""
        )
        self._live.start()

    def phase(self, text: str) -> None:
        self._update(phase=visible(text))

    def rate(self, messages_per_s: float) -> None:
        self._update(rate=f"{messages_per_s:,.0f} messages/s")

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self._update(completed=number, left=self._left_after(number, cell))
        if outcome != "completed":
            self.note(f"{cell} {outcome}: {text}")

    def end(self) -> None:
        self._update(left="", rate="", phase="")
        self._live.stop()

    def _update(self, **fields: object) -> None:
        if self._task is not None:
            self._progress.update(self._task, **fields)  # type: ignore[arg-type]


@contextmanager
def on_console(*, ask: bool = True, stderr: bool = False) -> Iterator[Reporter]:
    """A bar on a terminal, lines elsewhere; `ask` False takes every question as confirmed.

    `stderr` leaves standard output to what a command prints, for a command that is over after it.
    """
    console = SafeConsole(stderr=stderr)
    is_terminal = (sys.stderr if stderr else sys.stdout).isatty()
    reporter = Bar(console, ask=ask) if is_terminal else Lines(console, ask=ask)
    try:
        yield reporter
    finally:
        reporter.end()
