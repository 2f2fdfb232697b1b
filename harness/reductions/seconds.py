"""Each cell second by second: messages sent and processed, depths of queues."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.reductions.attempts import ATTEMPT, AXES, NS_PER_S, second_of, with_moments

# No cell is meant to last longer; an absurd drain time must not blow up the table.
SECONDS_MAX = 4 * 3600


def sent_by_second(calls: DataFrame, attempts: DataFrame) -> DataFrame:
    """Count calls of the send procedure by the second of their return."""
    returned = calls.where(F.col("succeeded")).select(
        *ATTEMPT, (F.col("started_at_ns") + F.col("latency_ns")).alias("returned_at_ns")
    )
    counted = with_moments(returned, attempts).groupBy(*ATTEMPT, second_of("returned_at_ns").alias("second"))
    return counted.agg(F.count(F.lit(1)).alias("sent")).select(*ATTEMPT, "second", "sent")


def processed_by_second(receives: DataFrame, attempts: DataFrame) -> DataFrame:
    """Count messages by the second of the RECEIVE that returned them, by the target's clock."""
    received = with_moments(receives.select(*ATTEMPT, "received_at_ns", "messages"), attempts)
    counted = received.groupBy(*ATTEMPT, second_of("received_at_ns").alias("second"))
    return counted.agg(F.sum("messages").alias("processed")).select(*ATTEMPT, "second", "processed")


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
    return (
        deepest.groupBy(*ATTEMPT, "second")
        .agg(
            _sum_where("queue_depth").alias("queue_depth"),
            _sum_where("transmission_queue_depth").alias("transmission_queue_depth"),
        )
        .select(*ATTEMPT, "second", "queue_depth", "transmission_queue_depth")
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
    keys = [*ATTEMPT, "second"]
    return (
        grid.join(sent, on=keys, how="left")
        .join(processed, on=keys, how="left")
        .join(depths, on=keys, how="left")
        .select(
            *AXES,
            "attempt",
            "second",
            F.coalesce("sent", F.lit(0)).alias("sent"),
            F.coalesce("processed", F.lit(0)).alias("processed"),
            "queue_depth",
            "transmission_queue_depth",
        )
    )


def peaks(seconds: DataFrame) -> DataFrame:
    """Return one row per attempt: the greatest depth of each kind of queue."""
    needed = seconds.select(*ATTEMPT, "queue_depth", "transmission_queue_depth")
    return (
        needed.groupBy(*ATTEMPT)
        .agg(
            F.max("queue_depth").alias("queue_depth_peak"),
            F.max("transmission_queue_depth").alias("transmission_queue_depth_peak"),
        )
        .select(*ATTEMPT, "queue_depth_peak", "transmission_queue_depth_peak")
    )


def _sum_where(metric: str) -> Column:
    return F.sum(F.when(F.col("metric") == metric, F.col("depth"))).cast("long")
