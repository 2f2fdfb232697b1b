"""Latencies of calls and of messages end to end: exact percentiles of each cell, in two passes over the records.

The first pass counts the values of a cell by ranges of latency, which are few. The counts say in which ranges the two
values lie that each percentile needs. The second pass ranks the values of these ranges alone, some percent of all.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.reductions.cells import ATTEMPT, ATTEMPT_KEY, in_window
from harness.reductions.messages import returned_calls

QUANTILES = (0.5, 0.95, 0.99)
# The latencies of an attempt are two series. The number of one is twice that of the attempt, plus its kind.
CALLS, END_TO_END = 0, 1
PREFIXES = {CALLS: "latency_us", END_TO_END: "end_to_end_us"}


def timed(attempts: DataFrame, calls: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return one row per latency of the window, in ns: of a call, and of a message from its send to its insert.

    The latency of an open loop is that of the calls intended to start in the window, whenever they returned. Otherwise
    a stall at its end would leave out the calls that waited longest. End to end it is that of messages sent in the
    window, whenever they were processed, from the send by the client's clock to the insert by the target's.
    """
    returned = returned_calls(calls).select(
        *(ATTEMPT_KEY, F.lit(CALLS).alias("kind"), F.col("latency_ns").alias("ns")),
        *("intended_at_ns", "returned_at_ns"),
    )
    delivered = deliveries.select(
        *(ATTEMPT_KEY, F.lit(END_TO_END).alias("kind"), (F.col("processed_at_ns") - F.col("sent_at_ns")).alias("ns")),
        # In both loops the moment of its send decides.
        *(F.col("sent_at_ns").alias(name) for name in ("intended_at_ns", "returned_at_ns")),
    )
    moments = attempts.select(ATTEMPT_KEY, "measured_from_ns", "measured_to_ns", "rate_per_s")
    decides = F.when(F.col("rate_per_s") > 0, F.col("intended_at_ns")).otherwise(F.col("returned_at_ns"))
    return (
        returned.unionByName(delivered)
        .join(F.broadcast(moments), on=ATTEMPT_KEY, how="inner")
        .withColumn("decides_ns", decides)
        .where(in_window("decides_ns"))
        .select((2 * F.col(ATTEMPT_KEY) + F.col("kind")).alias("series"), _range("ns").alias("range"), "ns")
    )


def _range(ns: str) -> Column:
    """Return the number of the range of a value, which never falls as values rise: a range is 200 us wide at 10 ms."""
    return F.floor(F.signum(ns) * F.sqrt(F.abs(F.col(ns)) / 1000)).cast("int")


def ranges(timed: DataFrame) -> DataFrame:
    """Return how many values lie in each range of a series, the largest of them, and how many are below zero."""
    return timed.groupBy("series", "range").agg(
        F.count(F.lit(1)).alias("alike"),
        F.max("ns").alias("longest_ns"),
        F.count(F.when(F.col("ns") < 0, F.lit(1))).alias("negative"),
    )


def latencies(attempts: DataFrame, timed: DataFrame, ranges: DataFrame) -> DataFrame:
    """Return one row per attempt: exact percentiles to the microsecond, the longest call, messages below zero.

    A percentile is interpolated between the nearest ranks. One that too few values carry is null.
    """
    names = attempts.select(*ATTEMPT, (2 * F.col(ATTEMPT_KEY)).alias("even"))
    of_series = Window.partitionBy("series")
    upwards = of_series.orderBy("range").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = of_series.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    needed = (
        ranges.select(
            *("series", "range", "alike"),
            (F.sum("alike").over(upwards) - 1).alias("last_rank"),
            F.sum("alike").over(whole).alias("values"),
            F.max("longest_ns").over(whole).alias("longest_ns"),
            F.sum("negative").over(whole).alias("negative"),
        )
        .where(_holds_a_needed_rank())
        .withColumn("below", F.col("last_rank") + 1 - F.col("alike"))
        .drop("alike", "last_rank")
    )
    found = timed.join(F.broadcast(needed), on=["series", "range"], how="inner")
    counted = found.groupBy("series", "range", "below", "values", "longest_ns", "negative", _us("ns").alias("us")).agg(
        F.count(F.lit(1)).alias("alike")
    )
    in_range = Window.partitionBy("series", "range").orderBy("us")
    so_far = F.sum("alike").over(in_range.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    ranked = counted.withColumn("last_rank", F.col("below") + so_far - 1)
    return (
        ranked.withColumn("kind", F.col("series") % 2)
        .withColumn("even", F.col("series") - F.col("kind"))
        .join(F.broadcast(names), on="even", how="inner")
        .groupBy(*ATTEMPT)
        .agg(
            *_quantiles(CALLS),
            F.round(F.max(_of(CALLS, F.col("longest_ns"))) / 1000, 3).alias("latency_us_max"),
            *_quantiles(END_TO_END),
            F.max(_of(END_TO_END, F.col("negative"))).alias("end_to_end_negative"),
        )
    )


def _of(kind: int, column: Column) -> Column:
    return F.when(F.col("kind") == kind, column)


def _us(nanoseconds: str) -> Column:
    """Return the nearest microsecond; the half is rounded away from zero."""
    return F.expr(f"if({nanoseconds} < 0, -((500 - {nanoseconds}) div 1000), ({nanoseconds} + 500) div 1000)")


def _quantiles(kind: int) -> list[Column]:
    return [
        F.when(
            F.max(_of(kind, F.col("values"))) >= values_needed(quantile),
            F.round(F.sum(_of(kind, F.col("us") * _weight(quantile))), 3),
        ).alias(f"{PREFIXES[kind]}_p{round(quantile * 100)}")
        for quantile in QUANTILES
    ]


def values_needed(quantile: float) -> int:
    """Return how many values carry a quantile: ten lie beyond it, so that a few slow calls do not decide it."""
    return round(10 / (1 - quantile))


def _weight(quantile: float) -> Column:
    """Return the weight of a value in a quantile, which lies between the rank below it and the next."""
    position, below = _position(quantile)
    above_part = position - below
    return F.when(_has_rank(below), 1 - above_part).otherwise(0.0) + F.when(_has_rank(below + 1), above_part).otherwise(
        0.0
    )


def _holds_a_needed_rank() -> Column:
    held = F.lit(False)
    for quantile in QUANTILES:
        _, below = _position(quantile)
        held = held | _has_rank(below) | _has_rank(below + 1)
    return held


def _position(quantile: float) -> tuple[Column, Column]:
    """Return the place of a quantile among the ranks, from 0, and the rank below it."""
    position = quantile * (F.col("values") - 1)
    return position, F.floor(position)


def _has_rank(rank: Column) -> Column:
    return (rank <= F.col("last_rank")) & (rank > F.col("last_rank") - F.col("alike"))
