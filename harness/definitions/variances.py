"""How much the rates of twin runs differ: from run to run, from block to block, and inside a block.

The model is nested: the logarithm of a rate is that of its cell, plus what a run, a cell in a run, a block of a run and
the single measurement add by chance. An analysis of variance (statsmodels) gives the mean squares, and these the
variances, as textbooks of variance components have it. A variance that comes out below zero is zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Spread:
    """A variance of logarithms, known with so many degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True, slots=True)
class Variances:
    """Standard deviations of the logarithm of a rate (0.05 is about 5 %), known from so many runs."""

    run: float  # of all cells of a run alike
    cell: float  # of a cell of a run, beyond that
    block: float  # of all cells of a block alike
    rest: float  # of one measurement
    runs: int

    def between(self, cells: int) -> Spread:
        """Return what differs between two runs as wholes, in the mean of so many cells."""
        return Spread(2 * (self.run**2 + self.cell**2 / cells), self.runs - 1)


def estimate(rows: pd.DataFrame) -> Variances:
    """Estimate the variances from twin runs: `rows` has `run`, `cell`, `block` and `log_rate`.

    There are two runs at least, each with two cells and two blocks. A few measurements may lack.
    """
    import statsmodels.formula.api as models  # noqa: PLC0415  it takes half a second
    from statsmodels.stats.anova import anova_lm  # noqa: PLC0415

    fitted = models.ols("log_rate ~ C(cell) + C(run) + C(run):C(cell) + C(run):C(block)", rows).fit()
    mean_squares = anova_lm(fitted).mean_sq
    runs, cells = rows.run.nunique(), rows.cell.nunique()
    of_run, of_cell, of_block, rest = (
        float(mean_squares[name]) for name in ("C(run)", "C(run):C(cell)", "C(run):C(block)", "Residual")
    )
    measurements_of_cell = len(rows) / (runs * cells)  # in a run
    measurements_of_block = len(rows) / len(rows[["run", "block"]].drop_duplicates())
    squares = {
        "run": (of_run - of_cell - of_block + rest) / (measurements_of_cell * cells),
        "cell": (of_cell - rest) / measurements_of_cell,
        "block": (of_block - rest) / measurements_of_block,
        "rest": rest,
    }
    return Variances(**{name: math.sqrt(max(0.0, square)) for name, square in squares.items()}, runs=runs)
