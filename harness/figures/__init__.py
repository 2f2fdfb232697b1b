"""Figures of a run and comparisons of two, from `reduced/` and `manifest.json` alone; no JVM.

The paper's figures 2, 3 and 4 (throughput against threads, one figure a number of initiators) and 5 (gain of every
150th dialog), with what the paper states in its text marked and labelled as the paper's; the gain over the whole
matrix, waits by type, latency, and the course of one cell. PNG and SVG.

Rules:

* A figure says in its title what is shown, in its subtitle what came out, in its footer where it comes from: lab, run,
  versions, date, duration, machine. A result of the embedded or simulated lab says that it is none of SQL Server.
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
from harness.figures.results import FigureError

__all__ = ["FigureError", "compare", "draw"]
