"""Messages in the measured window (calls, RECEIVEs, end-to-end latency), and each cell second by second."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.reductions.cells import ATTEMPT, AXES, NS_PER_S, beside, in_window, second_of, with_moments

# Of the kinds that have a row per message: the columns that any table reads.
COLUMNS_READ: Mapping[str, tuple[str, ...]] = {
    "calls": (*ATTEMPT, "intended_at_ns", "latency_ns", "succeeded"),
    "deliveries": (*ATTEMPT, "sent_at_ns", "processed_at_ns"),
}
QUANTILES = (0.5, 0.95, 0.99)
# No cell is meant to last longer; an absurd drain time must not blow up the table.
SECONDS_MAX = 4 * 3600


def returned_calls(calls: DataFrame) -> DataFrame:
    """Return the calls of the send procedure that succeeded, with the time of their return."""
    return calls.where(F.col("succeeded")).select(
        *ATTEMPT,
        "intended_at_ns",
        (F.col("intended_at_ns") + F.col("latency_ns")).alias("returned_at_ns"),
        "latency_ns",
    )


def calls_in_window(calls: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: how many calls of the send procedure returned in the window, and their latency.

    The latency of an open loop is that of the calls intended to start in the window, whenever they returned. Otherwise
    a stall at its end would leave out the calls that waited longest.
    """
    inside = in_window("returned_at_ns")
    timed = F.when(F.col("rate_per_s") > 0, in_window("intended_at_ns")).otherwise(inside)
    returned = with_moments(returned_calls(calls), attempts)
    alike = returned.groupBy(*ATTEMPT, F.when(timed, _us("latency_ns")).alias("us")).agg(
        F.count(F.when(timed, F.lit(1))).alias("alike"),
        F.count(F.when(inside, F.lit(1))).alias("inside"),
        F.max(F.when(timed, F.col("latency_ns"))).alias("longest"),
    )
    return (
        ranked(alike)
        .groupBy(*ATTEMPT)
        .agg(
            *quantiles("latency_us"),
            F.sum("inside").alias("calls_in_window"),
            F.round(F.max("longest") / 1000, 3).alias("latency_us_max"),
        )
    )


def with_counted(receives: DataFrame, processed: DataFrame) -> DataFrame:
    """Return the RECEIVEs, and the messages of cells in which they are counted, which have no `session_id`."""
    counted = processed.select(*ATTEMPT, F.col("processed_at_ns").alias("received_at_ns"), "messages")
    rows = receives.select(*ATTEMPT, "received_at_ns", "messages", "session_id")
    return rows.unionByName(counted, allowMissingColumns=True)


def processed_in_window(receives: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: the messages of the RECEIVEs in the window, and the number of these RECEIVEs.

    An attempt without a RECEIVE in the window has zeros; one without any RECEIVE has no row, or no number of RECEIVEs
    where messages are counted.
    """
    counted = with_moments(receives.select(*ATTEMPT, "received_at_ns", "messages", "session_id"), attempts)
    inside = in_window("received_at_ns")
    return counted.groupBy(*ATTEMPT).agg(
        F.sum(F.when(inside, F.col("messages")).otherwise(0)).alias("processed_in_window"),
        F.when(F.count("session_id") > 0, F.count(F.when(inside, F.col("session_id")))).alias("receives_in_window"),
    )


def end_to_end(deliveries: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: the latency of messages sent in the window, whenever they were processed.

    It runs from the send by the client's clock to the insert by the target's.
    """
    delivered = deliveries.select(
        *ATTEMPT, "sent_at_ns", (F.col("processed_at_ns") - F.col("sent_at_ns")).alias("elapsed_ns")
    )
    inside = with_moments(delivered, attempts).where(in_window("sent_at_ns"))
    alike = inside.groupBy(*ATTEMPT, _us("elapsed_ns").alias("us")).agg(
        F.count(F.lit(1)).alias("alike"), F.count(F.when(F.col("elapsed_ns") < 0, F.lit(1))).alias("negative")
    )
    return (
        ranked(alike).groupBy(*ATTEMPT).agg(*quantiles("end_to_end_us"), F.sum("negative").alias("end_to_end_negative"))
    )


def _us(nanoseconds: str) -> Column:
    return F.round(F.col(nanoseconds) / 1000).cast("long")


def ranked(alike: DataFrame) -> DataFrame:
    """Add the last rank, from 0, of the values of `us` that are alike, and the number of all values of the attempt.

    Equal values are counted and the counts added up, which can spill to disk. Spark's own `percentile` holds all values
    of a cell in memory, and a cell of a minute has a million.
    """
    values = Window.partitionBy(*ATTEMPT).orderBy("us")
    upwards = values.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    whole = values.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    count = F.sum("alike")
    return alike.select("*", (count.over(upwards) - 1).alias("last_rank"), count.over(whole).alias("values"))


def quantiles(prefix: str) -> list[Column]:
    """Return aggregates of `ranked` rows: exact quantiles to the microsecond, interpolated between the nearest ranks.

    One that too few values carry is null.
    """
    return [
        F.when(F.max("values") >= values_needed(quantile), F.round(F.sum(F.col("us") * _weight(quantile)), 3)).alias(
            f"{prefix}_p{round(quantile * 100)}"
        )
        for quantile in QUANTILES
    ]


def values_needed(quantile: float) -> int:
    """Return how many values carry a quantile: ten lie beyond it, so that a few slow calls do not decide it."""
    return round(10 / (1 - quantile))


def _weight(quantile: float) -> Column:
    """Return the weight of a value in a quantile, which lies between the rank below it and the next."""
    position = quantile * (F.col("values") - 1)
    below = F.floor(position)
    above_part = position - below
    return F.when(_has_rank(below), 1 - above_part).otherwise(0.0) + F.when(_has_rank(below + 1), above_part).otherwise(
        0.0
    )


def _has_rank(rank: Column) -> Column:
    return (rank <= F.col("last_rank")) & (rank > F.col("last_rank") - F.col("alike"))


def sent_by_second(calls: DataFrame, attempts: DataFrame) -> DataFrame:
    """Count calls of the send procedure by the second of their return."""
    returned = with_moments(returned_calls(calls), attempts)
    counted = returned.groupBy(*ATTEMPT, second_of("returned_at_ns").alias("second"))
    return counted.agg(F.count(F.lit(1)).alias("sent"))


def processed_by_second(receives: DataFrame, attempts: DataFrame) -> DataFrame:
    """Count messages by the second of the RECEIVE that returned them, by the target's clock."""
    received = with_moments(receives.select(*ATTEMPT, "received_at_ns", "messages"), attempts)
    counted = received.groupBy(*ATTEMPT, second_of("received_at_ns").alias("second"))
    return counted.agg(F.sum("messages").alias("processed"))


def depth_by_second(samples: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the deepest sample of each second: the target's queues, and all initiators' transmission queues
    together."""
    needed = samples.where(F.col("metric").isin("queue_depth", "transmission_queue_depth")).select(
        *ATTEMPT, "instance", "metric", "label", "sampled_at_ns", "value"
    )
    at_target = (F.col("metric") == "queue_depth") & (F.col("instance") == "target")
    at_initiators = (F.col("metric") == "transmission_queue_depth") & (F.col("instance") != "target")
    deepest = (
        with_moments(needed.where(at_target | at_initiators), attempts)
        .groupBy(*ATTEMPT, second_of("sampled_at_ns").alias("second"), "metric", "instance", "label")
        .agg(F.max("value").alias("depth"))
    )
    return deepest.groupBy(*ATTEMPT, "second").agg(
        *(
            F.sum(F.when(F.col("metric") == metric, F.col("depth"))).cast("long").alias(metric)
            for metric in ("queue_depth", "transmission_queue_depth")
        )
    )


def seconds(attempts: DataFrame, sent: DataFrame, processed: DataFrame, depths: DataFrame) -> DataFrame:
    """Return one row per second of each cell, from the start of the clients until all messages are processed.

    A second without calls or RECEIVEs counts zero messages; one without a sample has no depth. The last second may be
    shorter than a second.
    """
    last = F.least(F.floor((F.col("drained_at_ns") - F.col("started_at_ns")) / NS_PER_S), F.lit(SECONDS_MAX))
    grid = attempts.select(
        *AXES, "attempt", F.explode(F.sequence(F.lit(0), F.greatest(last, F.lit(0)).cast("int"))).alias("second")
    )
    return beside((*ATTEMPT, "second"), grid, sent, processed, depths).select(
        *(*AXES, "attempt", "second"),
        F.coalesce("sent", F.lit(0)).alias("sent"),
        F.coalesce("processed", F.lit(0)).alias("processed"),
        "queue_depth",
        "transmission_queue_depth",
    )


def peaks(seconds: DataFrame) -> DataFrame:
    """Return one row per attempt: the greatest depth of each kind of queue."""
    return seconds.groupBy(*ATTEMPT).agg(
        F.max("queue_depth").alias("queue_depth_peak"),
        F.max("transmission_queue_depth").alias("transmission_queue_depth_peak"),
    )
