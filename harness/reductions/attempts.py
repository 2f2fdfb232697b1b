"""The attempt of each cell that counts, and its moments, with which all other tables are joined."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

AXES = ("cell_id", "server_version", "initiators", "threads", "dialog_ratio", "payload_bytes")
ATTEMPT = ("cell_id", "attempt")
MOMENTS = ("started_at_ns", "measured_from_ns", "measured_to_ns", "stopped_at_ns", "drained_at_ns")
NS_PER_S = 1_000_000_000


def completed_attempts(cells: DataFrame) -> DataFrame:
    """Return one row per cell: its latest completed attempt, with its moments and message counts."""
    latest_first = (
        Window.partitionBy("cell_id")
        .orderBy(F.col("attempt").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    promised = (*AXES, "attempt", *MOMENTS, "settled", "sent_messages", "processed_messages")
    needed = cells.select(*promised, "outcome")
    completed = needed.where((F.col("outcome") == "completed") & (F.col("measured_to_ns") > F.col("measured_from_ns")))
    return completed.withColumn("place", F.row_number().over(latest_first)).where(F.col("place") == 1).select(*promised)


def with_moments(rows: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the rows of attempts that count, with the moments of their attempt."""
    moments = attempts.select(*ATTEMPT, "started_at_ns", "measured_from_ns", "measured_to_ns", "drained_at_ns")
    return rows.join(F.broadcast(moments), on=list(ATTEMPT), how="inner")


def in_window(moment: str) -> Column:
    """Test whether `moment` lies in the measured window, [from, to)."""
    return (F.col(moment) >= F.col("measured_from_ns")) & (F.col(moment) < F.col("measured_to_ns"))


def second_of(moment: str) -> Column:
    """Return the second in which `moment` lies, counted from 0 at the start of the clients."""
    return F.floor((F.col(moment) - F.col("started_at_ns")) / NS_PER_S).cast("int")
