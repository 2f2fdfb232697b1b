"""The steps of a run, the closed loop first in each block, and the load of each."""

import random
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from harness.definitions.load_model import Arrivals, OpenLoop
from harness.definitions.matrix import Cell, Visit
from harness.files.journal import Entry
from harness.run.cell_failures import CellFailed

PERCENTS = tuple(range(10, 111, 10))


def step_id(percent: int | None) -> str:
    """The name of a step in journal and folder; None is the closed loop."""
    return "closed-loop" if percent is None else f"rate-{percent:03d}"


@dataclass(frozen=True)
class Step:
    """The cell at a share of its closed-loop rate; without one, in the closed loop."""

    cell: Cell
    percent: int | None = None
    block: int = 1

    @property
    def id(self) -> str:
        return step_id(self.percent)

    @property
    def visit(self) -> Visit:
        return Visit(self.cell, self.block)

    @property
    def arrangement(self) -> None:
        """The lab's."""
        return None

    def folder(self, results: Path) -> Path:
        """Return the folder of the raw records of all blocks."""
        return results / "rates" / self.id


def steps(cell: Cell, repeats: int, seed: int) -> list[Step]:
    """List the closed loop and the rates of each block, these in an order by the seed.

    So a drift of the machine is none of the load.
    """
    return [
        Step(cell, percent, block)
        for block in range(1, repeats + 1)
        for percent in (None, *random.Random(f"{seed} {block}").sample(PERCENTS, len(PERCENTS)))
    ]


def closed_loop_per_s(entries: Iterable[Entry], block: int) -> float:
    """Return the rate of all initiators in the closed loop of a block; 0 if it was not completed."""
    rates = (
        entry.sent_per_s
        for entry in entries
        if (entry.cell, entry.block, entry.outcome) == (step_id(None), block, "completed")
    )
    return next(rates, 0.0)


def load_of(step: Step, entries: Iterable[Entry], arrivals: Arrivals, seed: int) -> OpenLoop | None:
    """Return the load of a step, a share of its block's closed loop; None: that closed loop.

    A run that is resumed reads the same rate in its journal.
    """
    if step.percent is None:
        return None
    if not (closed_loop := closed_loop_per_s(entries, step.block)):
        raise CellFailed("the closed loop has no rate, of which this step's would be a share")
    rate_per_s = closed_loop / step.cell.initiators * step.percent / 100
    return OpenLoop(rate_per_s, arrivals, seed)
