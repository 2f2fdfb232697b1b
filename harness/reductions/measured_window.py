"""The measured window: calls, messages counted by RECEIVE, end-to-end latency, processor time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.reductions.attempts import ATTEMPT, in_window, with_moments

QUANTILES = (0.5, 0.95, 0.99)


def calls_in_window(calls: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: how many calls of the send procedure returned in the window, and their latency."""
    returned = calls.where(F.col("succeeded")).select(
        *ATTEMPT, (F.col("started_at_ns") + F.col("latency_ns")).alias("returned_at_ns"), "latency_ns"
    )
    inside = with_moments(returned, attempts).where(in_window("returned_at_ns"))
    counted = inside.groupBy(*ATTEMPT).agg(
        F.count(F.lit(1)).alias("calls_in_window"), F.max("latency_ns").alias("longest")
    )
    return (
        quantiles(inside, counted, "calls_in_window", "latency_ns", "latency_us")
        .join(F.broadcast(counted), on=list(ATTEMPT), how="inner")
        .select(
            *ATTEMPT,
            *_names("latency_us"),
            "calls_in_window",
            F.round(F.col("longest") / 1000, 3).alias("latency_us_max"),
        )
    )


def processed_in_window(receives: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: the messages of the RECEIVEs in the window, and the number of these RECEIVEs.

    An attempt without a RECEIVE in the window has zeros; one without any RECEIVE has no row.
    """
    counted = with_moments(receives.select(*ATTEMPT, "received_at_ns", "messages"), attempts)
    inside = in_window("received_at_ns")
    return (
        counted.groupBy(*ATTEMPT)
        .agg(
            F.sum(F.when(inside, F.col("messages")).otherwise(0)).alias("processed_in_window"),
            F.count(F.when(inside, F.lit(1))).alias("receives_in_window"),
        )
        .select(*ATTEMPT, "processed_in_window", "receives_in_window")
    )


def end_to_end(deliveries: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: the latency of messages sent in the window, whenever they were processed.

    It runs from the send by the client's clock to the insert by the target's.
    """
    delivered = deliveries.select(
        *ATTEMPT, "sent_at_ns", (F.col("processed_at_ns") - F.col("sent_at_ns")).alias("elapsed_ns")
    )
    inside = with_moments(delivered, attempts).where(in_window("sent_at_ns"))
    counted = inside.groupBy(*ATTEMPT).agg(
        F.count(F.lit(1)).alias("sent_in_window"),
        F.count(F.when(F.col("elapsed_ns") < 0, F.lit(1))).alias("end_to_end_negative"),
    )
    return (
        quantiles(inside, counted, "sent_in_window", "elapsed_ns", "end_to_end_us")
        .join(F.broadcast(counted), on=list(ATTEMPT), how="inner")
        .select(*ATTEMPT, *_names("end_to_end_us"), "end_to_end_negative")
    )


def quantiles(rows: DataFrame, counted: DataFrame, count: str, nanoseconds: str, prefix: str) -> DataFrame:
    """Return one row per attempt: exact quantiles to the microsecond, interpolated between the nearest ranks.

    Equal values are counted and the counts added up, which can spill to disk. Spark's own `percentile` holds all values
    of a cell in memory, and a cell of a minute has a million.
    """
    upwards = Window.partitionBy(*ATTEMPT).orderBy("us").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    alike = (
        rows.select(*ATTEMPT, F.round(F.col(nanoseconds) / 1000).cast("long").alias("us"))
        .groupBy(*ATTEMPT, "us")
        .agg(F.count(F.lit(1)).alias("alike"))
    )
    ranked = alike.withColumn("last_rank", F.sum("alike").over(upwards) - 1).join(
        F.broadcast(counted.select(*ATTEMPT, F.col(count).alias("values"))), on=list(ATTEMPT), how="inner"
    )
    sums = [F.round(F.sum(F.col("us") * _weight(quantile)), 3).alias(_name(prefix, quantile)) for quantile in QUANTILES]
    return ranked.groupBy(*ATTEMPT).agg(*sums).select(*ATTEMPT, *_names(prefix))


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


def _name(prefix: str, quantile: float) -> str:
    return f"{prefix}_p{round(quantile * 100)}"


def _names(prefix: str) -> list[str]:
    return [_name(prefix, quantile) for quantile in QUANTILES]


def processor_use(processors: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: processor time of the target and of all initiators, in percent of the available."""
    used = with_moments(
        processors.select(
            *ATTEMPT,
            "instance",
            F.col("processor_time_ms").alias("used_ms"),
            (F.col("window_ns") / 1e6 * F.col("processors")).alias("available_ms"),
        ),
        attempts,
    )
    return (
        used.groupBy(*ATTEMPT)
        .agg(
            _share(F.col("instance") != "target").alias("initiator_processor_percent"),
            _share(F.col("instance") == "target").alias("target_processor_percent"),
        )
        .select(*ATTEMPT, "initiator_processor_percent", "target_processor_percent")
    )


def _share(of: Column) -> Column:
    used = F.sum(F.when(of, F.col("used_ms")))
    available = F.sum(F.when(of, F.col("available_ms")))
    return F.round(F.when(available > 0, 100 * used / available), 2)
