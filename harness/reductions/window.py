"""What the measured window holds: calls, messages counted by RECEIVE, end-to-end latency, processor time."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.reductions.attempts import ATTEMPT, in_window, with_moments

QUANTILES = (0.5, 0.95, 0.99)


def calls_in_window(calls: DataFrame, attempts: DataFrame) -> DataFrame:
    """One row an attempt: how many calls of the send procedure returned in the window, and how long they took."""
    returned = calls.where(F.col("succeeded")).select(
        *ATTEMPT, (F.col("started_at_ns") + F.col("latency_ns")).alias("returned_at_ns"), "latency_ns"
    )
    grouped = with_moments(returned, attempts).where(in_window("returned_at_ns")).groupBy(*ATTEMPT)
    return _spread(
        grouped.agg(
            F.count(F.lit(1)).alias("calls_in_window"),
            _quantiles("latency_ns"),
            F.max("latency_ns").alias("longest"),
        ),
        "latency_us",
        "calls_in_window",
        F.round(F.col("longest") / 1000, 3).alias("latency_us_max"),
    )


def processed_in_window(receives: DataFrame, attempts: DataFrame) -> DataFrame:
    """One row an attempt: the messages of the RECEIVEs in the window, and how many RECEIVEs those were.

    An attempt whose target counted nothing in the window has a row of zeros; one without any RECEIVE has none.
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
    """One row an attempt: from the client's clock at the send to the target's at the insert, of messages sent in the
    window, whenever they were processed."""
    delivered = deliveries.select(
        *ATTEMPT, "sent_at_ns", (F.col("processed_at_ns") - F.col("sent_at_ns")).alias("elapsed_ns")
    )
    grouped = with_moments(delivered, attempts).where(in_window("sent_at_ns")).groupBy(*ATTEMPT)
    return _spread(
        grouped.agg(
            _quantiles("elapsed_ns"),
            F.count(F.when(F.col("elapsed_ns") < 0, F.lit(1))).alias("end_to_end_negative"),
        ),
        "end_to_end_us",
        "end_to_end_negative",
    )


def processor_use(processors: DataFrame, attempts: DataFrame) -> DataFrame:
    """One row an attempt: processor time of the target and of all initiators, in percent of what they had."""
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


def _quantiles(nanoseconds: str) -> Column:
    return F.percentile(nanoseconds, F.array(*map(F.lit, QUANTILES))).alias("quantiles")


def _spread(table: DataFrame, prefix: str, *columns: str | Column) -> DataFrame:
    """The quantiles as columns of their own, in microseconds."""
    named = [
        F.round(F.col("quantiles")[place] / 1000, 3).alias(f"{prefix}_p{round(quantile * 100)}")
        for place, quantile in enumerate(QUANTILES)
    ]
    return table.select(*ATTEMPT, *named, *columns)
