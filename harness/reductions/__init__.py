"""From raw records to the tables that figures and comparisons read.

    raw/*.parquet + manifest.json + journal.jsonl  ->  reduced/{cells,seconds,gain,waits,...}.{parquet,csv}

Every table is a function `DataFrame -> DataFrame` of its own module; it begins with a `select` (what it needs of the
raw records) and ends with one (the columns it promises). `inputs` decides which files count, `session` owns Spark,
`tables` runs everything and writes. Nothing here collects raw rows, and no Python code runs inside Spark.

What counts: the latest attempt of a cell that the journal and the cell's own record call completed, if all its files
can be read. Anything else is left out and named through `progress`.

How numbers are made:

* Throughput comes from the books: calls of the send procedure that returned in the measured window, and messages
  whose RECEIVE the target counted in it, by the target's clock; divided by the window's length. Never a mean of rates.
* Percentiles are exact to the microsecond: linear interpolation between the two nearest ranks of all values of a cell
  (numpy's default, SQL's PERCENTILE_CONT), never an average of percentiles. `calls_in_window` says how many values a
  percentile rests on.
* End-to-end latency is of every message *sent* in the window, whenever it was processed, so that a backlog cannot hide.
  Clocks of two machines may disagree: negative values are kept and counted.
* Clients are a closed loop (each thread waits for its call), so latencies do not show what an open arrival stream
  would have waited.
* A target that processed less than nine tenths of what was sent in the window fell behind (`target_kept_up`): its rate
  is that of a growing backlog, not one that it sustains, and a short window catches any part of it.
  `until_drained_per_s`, all messages over all the time from the first call until the last message was processed, is
  there beside it.
* What page latches were waited for is a count of what was seen in so many looks at the waiting tasks, no sum of times:
  a wait shorter than the pause between two looks is mostly missed, in all objects alike.
* A missing number (an instance that gave no processor time) is null, never zero.
"""

from harness.reductions.raw_files import ReductionError, SparkUnavailable
from harness.reductions.reduction import reduce

__all__ = ["ReductionError", "SparkUnavailable", "reduce"]
