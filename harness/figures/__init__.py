"""Figures and report of a run, and comparisons of two runs, from `reduced/` and `manifest.json` alone, without a JVM.

The paper's figures 2, 3 and 4 (throughput by threads, one figure per number of initiators) and 5 (gain of the 150
trick), in which numbers from the paper's text are marked and labelled as the paper's; the gain over the whole matrix,
waits by type, page latches by object, the pages of the used dialogs, log writes, latency, and one cell second by
second. Files are PNG and SVG. `report.html` holds all figures, the findings in sentences, the claims and the
circumstances.

Rules:

* The line above a title names lab and versions, the title says what is shown, the subtitle what was found, the footer
  where it comes from: lab, run, versions, date, duration, machine. Figures of the embedded and the simulated lab say
  that they do not show SQL Server, those of the simulated lab also that it is a model.
* A line is the mean of the server versions, and the geometric mean of the blocks. A bar is the 95 % interval over the
  blocks (`parts.with_intervals`). Versions differ little (in the paper too: "comparable"), and twice as many lines
  would hide the payloads, which the figures compare.
* A cell that does not count is hollow (on a map: in brackets), no line goes through it, and a note says so. One with a
  saturated target has a dark edge, and no latency.
* A gain is the geometric mean over versions and blocks, its bar the 95 % interval of the blocks
  (`harness.definitions.inference`). With fewer than three blocks it has no bar, and the figure says so. The gain map is
  grey where no gain can be told.
* The paper's numbers are marked only where a cell of the paper's matrix is drawn. Any other matrix has the same figures
  for the axes that it has; if it varies one axis alone, that axis has a plain line (`one_axis`).
* The report of the matrix `trick` begins with its answer (`trick_answer`).
* A figure without data is left out, never drawn empty, and `progress` gets the reason.
* A number of the paper far beyond the data becomes an arrow at the edge, so that the scale does not flatten the data.

Every figure is a function `DataFrame(s) -> Sheet` in the module of its subject. Folders, footers and files are the
business of `build`. Nothing uses pyplot. Where there is a second processor, a second process draws half
of a run's figures (`sharing`).

`build.draw` draws a run, `build.draw_queue_course` one cell from its raw samples, `comparison.compare` two runs. This
package imports neither: who only reads tables (`reduced_run`) needs no Matplotlib.
"""
