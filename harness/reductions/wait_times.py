"""Waits of the instances in the measured window."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.reductions.cells import ATTEMPT, AXES, with_axes, with_moments

WAITS_KEPT = 10  # per cell and role
# Kept at any place, because the paper speaks of them, and a missing row would read as no waiting.
ALWAYS_KEPT = ("PAGELATCH_EX", "PAGELATCH_SH", "WRITELOG")
WAITS_NAMED = 3  # in the cell's own row

# Waits of idle tasks: a queue reader in WAITFOR (RECEIVE ...), timers, background tasks. They say nothing about a
# bottleneck and would hide the waits that do. The list follows those that SQL Server's experts publish.
IDLE_WAITS = Path(__file__).with_name("idle_waits.txt").read_text(encoding="utf-8").split()


def waits(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the longest waits of each cell and role (target, or all initiators together) and those that the paper
    names, without idle waits.

    `share_percent` is the share in all waiting of that cell and role that is not idle, whether or not it is kept here.
    """
    is_idle = F.col("wait_type").isin(*IDLE_WAITS) | F.col("wait_type").startswith("SLEEP_")
    needed = raw.where(~is_idle).select(
        *ATTEMPT,
        F.when(F.col("instance") == "target", "target").otherwise("initiator").alias("role"),
        "wait_type",
        "waiting_tasks",
        "wait_time_ms",
        "signal_wait_time_ms",
    )
    by_role = Window.partitionBy(*ATTEMPT, "role")
    whole = by_role.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    longest_first = by_role.orderBy(F.col("wait_time_ms").desc(), "wait_type").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    totals = (
        with_moments(needed, attempts)
        .groupBy(*ATTEMPT, "role", "wait_type")
        .agg(*(F.sum(name).alias(name) for name in ("waiting_tasks", "wait_time_ms", "signal_wait_time_ms")))
        .where((F.col("wait_time_ms") > 0) | (F.col("waiting_tasks") > 0))
    )
    all_waiting = F.sum("wait_time_ms").over(whole)
    kept = (
        totals.withColumn("place", F.row_number().over(longest_first))
        .withColumn("share_percent", F.round(100 * F.col("wait_time_ms") / F.nullif(all_waiting, F.lit(0)), 2))
        .where((F.col("place") <= WAITS_KEPT) | F.col("wait_type").isin(*ALWAYS_KEPT))
    )
    return with_axes(kept, attempts).select(
        *(*AXES, "attempt", "role", "place", "wait_type"),
        *("waiting_tasks", "wait_time_ms", "signal_wait_time_ms", "share_percent"),
    )


def top_waits(waits: DataFrame) -> DataFrame:
    """Return one row per attempt: each role's longest waits as text, such as `WRITELOG 812 ms; PAGELATCH_EX 90 ms`."""
    named = waits.where((F.col("place") <= WAITS_NAMED) & (F.col("wait_time_ms") > 0)).select(
        *ATTEMPT,
        "role",
        F.struct("place", F.format_string("%s %d ms", "wait_type", "wait_time_ms").alias("text")).alias("wait"),
    )
    return named.groupBy(*ATTEMPT).agg(
        _listed("initiator").alias("initiator_top_waits"), _listed("target").alias("target_top_waits")
    )


def _listed(role: str) -> Column:
    # collect_list leaves nulls out.
    of_role = F.array_sort(F.collect_list(F.when(F.col("role") == role, F.col("wait"))))
    return F.array_join(F.transform(of_role, lambda wait: wait["text"]), "; ")
