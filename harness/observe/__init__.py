"""What happens inside the instances while a cell runs: numbers read about once a second, totals before and after, and
who waits for which page.

One observer an instance, each with one connection and one native thread of its own, so that a slow instance delays
neither the sweep nor another observer; beside it a latch watch, which looks ten times a second in the measured window.
All only read, through the files of `sql/observe`, one question a file.

- `questions`: answers become rows of `samples`; `snapshots`: of `waits`, `processors`, `latches` and `file_io`
- `latch_watch`, `page_objects`: tasks that wait for a page, and whose page it is: rows of `latch_waits`
- `pages`: where the used dialogs lie, asked once a pool over the dedicated administrator connection: `dialog_pages`
- `fingerprint`: what an instance is, for the manifest; `kept`: a connection of one thread

An observer that fails goes on trying; its failure is a row of `samples` (metric `observer_failure`, the label says
why) and the sweep says so, because numbers that are missing in silence pass for zeros. What an instance does not show
to this login is a record less, said once, and no failure.
"""

from harness.observe.observers import Observers

__all__ = ["Observers"]
