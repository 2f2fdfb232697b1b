"""Observe the instances while a cell runs: samples about once a second, totals before and after, waits for pages.

Each instance has an observer with its own connection and native thread, so that a slow instance delays neither the
sweep nor another observer. A latch watch beside it samples ten times a second in the measured window. All of them only
read, with the queries of `sql/observe`, except that `queue_sizes` rebuilds a queue and makes checkpoints.

- `observers`: one instance's observer, with its queries for the record `samples`, and all observers of a lab together
- `snapshots`: differences of totals as rows of `waits`, `processors`, `latches`, `file_io`, `index_waits` and
  `spinlocks`; the facts about an instance that the manifest records
- `latch_watch`: tasks that wait for a page and the object it belongs to, as rows of `latch_waits`
- `looks`: all instances at one moment, as charts of the page of `harness ui`; it has observers and latch watches of its
  own that belong to no cell
- `cell_looks`: the same charts of a sweep's cells, made of what the run samples and records anyway
- `error_logs`: what the instances' error logs say of the time in which their lab was open, as files of the run
- `queue_sizes`: messages, pages and ghost records of the queues before each cell, as a file of the run; a queue that
  has grown is rebuilt
- `machine_use`: what else this machine did meanwhile, as a row of `machine`
- `dialog_pages`: the pages of the used dialogs, read once for each pool over the dedicated administrator connection

An observer that fails keeps trying. Its failure becomes a row of `samples` (metric `observer_failure`, the reason is
the label) and is reported, because missing numbers would look like zeros. If an instance does not show something to
this login, that record is missing; this is reported once and is not a failure.
"""

from harness.observe.observers import Observers

__all__ = ["Observers"]
