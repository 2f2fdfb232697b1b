"""Which attempt of a cell counts, and its moments: what every other table joins with."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

AXES = ("cell_id", "server_version", "initiators", "threads", "dialog_ratio", "payload_bytes")
ATTEMPT = ("cell_id", "attempt")
NS_PER_S = 1_000_000_000


def completed_attempts(cells: DataFrame) -> DataFrame:
    """One row a cell: its latest completed attempt with the moments of the protocol and the books."""
    latest_first = (
        Window.partitionBy("cell_id")
        .orderBy(F.col("attempt").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    needed = cells.select(
        *AXES,
        "attempt",
        "outcome",
        "started_at_ns",
        "measured_from_ns",
        "measured_to_ns",
        "stopped_at_ns",
        "drained_at_ns",
        "settled",
        "sent_messages",
        "processed_messages",
    )
    completed = needed.where((F.col("outcome") == "completed") & (F.col("measured_to_ns") > F.col("measured_from_ns")))
    return (
        completed.withColumn("place", F.row_number().over(latest_first))
        .where(F.col("place") == 1)
        .select(
            *AXES,
            "attempt",
            "started_at_ns",
            "measured_from_ns",
            "measured_to_ns",
            "stopped_at_ns",
            "drained_at_ns",
            "settled",
            "sent_messages",
            "processed_messages",
        )
    )


def with_moments(rows: DataFrame, attempts: DataFrame) -> DataFrame:
    """`rows` of attempts that count, each with its attempt's moments."""
    moments = attempts.select(*ATTEMPT, "started_at_ns", "measured_from_ns", "measured_to_ns", "drained_at_ns")
    return rows.join(F.broadcast(moments), on=list(ATTEMPT), how="inner")


def in_window(moment: str) -> Column:
    """Whether `moment` lies in the measured window, [from, to)."""
    return (F.col(moment) >= F.col("measured_from_ns")) & (F.col(moment) < F.col("measured_to_ns"))


def second_of(moment: str) -> Column:
    """The second of the cell, 0.. from the start of the clients, in which `moment` lies."""
    return F.floor((F.col(moment) - F.col("started_at_ns")) / NS_PER_S).cast("int")
