"""Figures of a run, its report, and comparisons of two runs, from `reduced/` and `manifest.json` alone; no JVM.

The paper's figures 2, 3 and 4 (throughput against threads, one figure a number of initiators) and 5 (gain of every
150th dialog), with what the paper states in its text marked and labelled as the paper's; the gain over the whole
matrix, waits by type, page latches by object, the pages that the used dialogs lie on, log writes, latency, and the
course of one cell. PNG and SVG. `report.html` holds them all, with the findings in sentences and the circumstances.

Rules:

* A figure says above its title whose numbers it shows (lab and versions), in its title what is shown, in its subtitle
  what came out, in its footer where it comes from: lab, run, versions, date, duration, machine. A result of the
  embedded or simulated lab says that it is none of SQL Server, one of the simulated lab that it is a model's.
* A line is the mean of the server versions, a bar spans them: they differ little (in the paper too, "comparable"), and
  twice the lines would hide the payloads, which is what the figures compare. One version: no bars.
* A rate that is not sustained, because the target fell behind, is hollow (on a map: in brackets), and is said.
* What has no data is left out, never drawn empty, and `progress` hears why.
* A paper's number far beyond the data becomes an arrow at the edge rather than a scale that flattens the data.

Every figure is a module with a function `DataFrame(s) -> Sheet`, none of which knows folders, footers or
files; `build` does those. Nothing uses pyplot.
"""

from harness.figures.build import draw
from harness.figures.comparison import compare
from harness.figures.reduced_run import FigureError

__all__ = ["FigureError", "compare", "draw"]
