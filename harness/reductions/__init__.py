"""Reduce raw records to the tables that figures, claims and comparisons read.

    raw/*.parquet + manifest.json + journal.jsonl  ->  reduced/{cells,seconds,gain,waits,...}.{parquet,csv}

Every table is a function `DataFrame -> DataFrame`. It begins with a `select` of the columns that it needs and ends
with a `select` or `agg` of the columns that it promises. `raw_files` decides which files count, `spark_session` starts
and stops Spark, `reduction` runs everything and writes the tables. No raw rows are collected, and no Python code runs
inside Spark.

The latest attempt of a cell counts that both the journal and the cell's own record call completed, if all its files can
be read. Everything else is left out and named through `progress`.

How numbers are computed:

* Throughput is a count divided by the window's length: calls of the send procedure that returned in the measured
  window, and messages whose RECEIVE the target counted in it, by the target's clock. It is never a mean of rates.
* Percentiles are exact to the microsecond: linear interpolation between the two nearest ranks of all values of a cell
  (numpy's default, SQL's PERCENTILE_CONT), never an average of percentiles. `calls_in_window` is the number of
  values.
* End-to-end latency is that of every message *sent* in the window, whenever it was processed, so that it includes the
  backlog. The clocks of two machines may differ: negative values are kept and counted.
* Clients are a closed loop (each thread waits for its call), so latencies do not show how long calls of an open arrival
  stream would have waited.
* A target that processed less than nine tenths of what was sent in the window fell behind (`target_kept_up` is false).
  Its rate is not sustained, and depends on where in the growth of the backlog the window lies. `until_drained_per_s`
  does not: it is all messages divided by the time from the first call until the last message was processed.
* Page latch waits are counted in samples of the waiting tasks, not summed as times. A wait shorter than the pause
  between two samples is mostly missed, for all objects alike.
* A missing number, such as the processor time of an instance that does not provide it, is null, never zero.
"""

from harness.reductions.raw_files import SparkUnavailable
from harness.reductions.reduction import reduce

__all__ = ["SparkUnavailable", "reduce"]
