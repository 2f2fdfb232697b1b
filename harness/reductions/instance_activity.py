"""Activity of the instances in the measured window: latches other than page latches, database files, counters."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from harness.reductions.attempts import ATTEMPT, AXES, NS_PER_S, in_window, with_moments

MIB = 1024 * 1024
FILE_COUNTS = (
    "reads",
    "bytes_read",
    "read_stall_ms",
    "writes",
    "bytes_written",
    "write_stall_ms",
    "growth_bytes",
)


def latches(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance and latch class for which a task waited."""
    needed = raw.where((F.col("waiting_requests") > 0) | (F.col("wait_time_ms") > 0)).select(
        *ATTEMPT, "instance", "latch_class", "waiting_requests", "wait_time_ms"
    )
    return _of_attempts(needed, attempts).select(
        *AXES,
        "attempt",
        "instance",
        "latch_class",
        "waiting_requests",
        "wait_time_ms",
        _per_second("waiting_requests").alias("waiting_requests_per_s"),
        _per_second("wait_time_ms").alias("wait_ms_per_s"),
    )


def file_io(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance and database file: rates, and the mean stall of a read and of a write.

    A file that was not read, or not written, has no mean stall.
    """
    needed = raw.select(*ATTEMPT, "instance", "database_name", "file_name", "file_type", *FILE_COUNTS)
    return _of_attempts(needed, attempts).select(
        *AXES,
        "attempt",
        "instance",
        "database_name",
        "file_name",
        "file_type",
        *FILE_COUNTS,
        _per_second("reads").alias("reads_per_s"),
        _per_second("bytes_read", MIB).alias("read_mib_per_s"),
        _each("read_stall_ms", "reads").alias("read_stall_ms_mean"),
        _per_second("writes").alias("writes_per_s"),
        _per_second("bytes_written", MIB).alias("written_mib_per_s"),
        _each("write_stall_ms", "writes").alias("write_stall_ms_mean"),
    )


def counters(samples: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance and performance counter: its change between the first and the last sample in
    the measured window, for counters that hold a total, and its mean, for those that hold a level.

    The change is null for a single sample; a window of a second hardly has more.
    """
    needed = samples.where(F.col("metric") == "counter").select(
        *ATTEMPT, "instance", "sampled_at_ns", F.col("label").alias("counter"), "value"
    )
    seen = _of_attempts(needed, attempts).where(in_window("sampled_at_ns"))
    between_s = (F.max("sampled_at_ns") - F.min("sampled_at_ns")) / NS_PER_S
    change = F.when(F.count(F.lit(1)) > 1, F.max_by("value", "sampled_at_ns") - F.min_by("value", "sampled_at_ns"))
    return seen.groupBy(*AXES, "attempt", "instance", "counter").agg(
        F.count(F.lit(1)).cast("int").alias("samples"),
        F.round(F.avg("value"), 3).alias("mean"),
        change.alias("change"),
        F.round(change / F.nullif(between_s, F.lit(0.0)), 3).alias("change_per_s"),
    )


def _of_attempts(rows: DataFrame, attempts: DataFrame) -> DataFrame:
    axes = attempts.select(*AXES, "attempt")
    return with_moments(rows, attempts).join(F.broadcast(axes), on=list(ATTEMPT), how="inner")


def _per_second(count: str, unit: int = 1) -> Column:
    window_s = (F.col("measured_to_ns") - F.col("measured_from_ns")) / NS_PER_S
    return F.round(F.col(count) / unit / window_s, 3)


def _each(total_ms: str, count: str) -> Column:
    return F.round(F.col(total_ms) / F.nullif(count, F.lit(0)), 3)
