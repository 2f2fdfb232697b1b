"""What happens inside the instances while a cell runs: numbers read about once a second, and waits before and after.

One observer an instance, each with one connection and one native thread of its own, so that a slow instance delays
neither the sweep nor another observer. An observer only reads, through the files of `sql/observe`, one question a
file; `questions` says how the answers become rows of the `samples`, `waits` and `processors` records.

An observer that fails goes on trying; its failure is a row of `samples` (metric `observer_failure`, the label says
why) and the sweep says so, because numbers that are missing in silence pass for zeros.
"""

from harness.observe.observer import Observer, Observers

__all__ = ["Observer", "Observers"]
