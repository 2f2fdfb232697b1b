"""Each cell second by second: messages sent and processed, and the depths of the queues."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.definitions.measures import NS_PER_S
from harness.reductions.cells import ATTEMPT, ATTEMPT_KEY, AXES, beside, second_of, with_moments

# No cell is meant to last longer; an absurd drain time must not blow up the table.
SECONDS_MAX = 4 * 3600


def depth_by_second(samples: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the deepest sample of each second: the target's queues, and all initiators' transmission queues
    together."""
    needed = samples.where(F.col("metric").isin("queue_depth", "transmission_queue_depth")).select(
        ATTEMPT_KEY, "instance", "metric", "label", "sampled_at_ns", "value"
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


def seconds(attempts: DataFrame, course: DataFrame, depths: DataFrame) -> DataFrame:
    """Return one row per second of each cell, from the start of the clients until all messages are processed.

    A second without calls or RECEIVEs counts zero messages; one without a sample has no depth. The last second may be
    shorter than a second.
    """
    last = F.least(F.floor((F.col("drained_at_ns") - F.col("started_at_ns")) / NS_PER_S), F.lit(SECONDS_MAX))
    grid = attempts.select(
        *AXES, "attempt", F.explode(F.sequence(F.lit(0), F.greatest(last, F.lit(0)).cast("int"))).alias("second")
    )
    counted = course.groupBy(*ATTEMPT, "second").agg(F.sum("sent").alias("sent"), F.sum("processed").alias("processed"))
    return beside((*ATTEMPT, "second"), grid, counted, depths).select(
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
