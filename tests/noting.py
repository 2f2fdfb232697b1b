"""Reporters that keep what a user would see: the notes of a run, or the figures of a drawing."""

from harness.output.reporting import Reporter, TimeLeft


class NotingReporter(Reporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


class FigureReporter(Reporter):
    """Keeps which figures were announced, drawn and left out, and why."""

    def __init__(self) -> None:
        self.total = 0
        self.completed: list[str] = []
        self.left_out: dict[str, str] = {}

    def begin(self, total: int, done: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1) -> None:
        assert unit == "figure"
        self.total = total

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        assert number == len(self.completed) + len(self.left_out) + 1
        if outcome == "completed":
            self.completed.append(cell)
        else:
            self.left_out[cell] = text


class CountingReporter(Reporter):
    """Keeps what was counted, and the number of each."""

    def __init__(self) -> None:
        self.counted: list[int] = []
        self.of = ""

    def begin(self, total: int, done: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1) -> None:
        self.of = f"{total} {unit}s"

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self.counted.append(number)
