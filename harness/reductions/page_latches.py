"""The pages of sys.sysdesend on which used dialogs lie, and the page latches that tasks were seen waiting for."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from harness.reductions.attempts import ATTEMPT, AXES, in_window, with_moments

UNRESOLVED = "not resolved"  # pages whose object is unknown


def page_spread(dialog_pages: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell and initiator: how many pages hold its used dialogs.

    `dialogs_sharing_a_page` counts the used dialogs with another used dialog on their page: their SENDs can wait for
    each other's latch. `handles_sequential` says whether handles ascend in the order in which the dialogs were begun,
    on which the 150 trick depends; null for a single dialog.
    """
    needed = dialog_pages.select(*ATTEMPT, "instance", "dialog_id", "file_id", "page_id", "handle_rank")
    of_instance = Window.partitionBy(*ATTEMPT, "instance")
    of_page = Window.partitionBy(*ATTEMPT, "instance", "file_id", "page_id").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    placed = (
        with_moments(needed, attempts)
        .withColumn("neighbours", F.count(F.lit(1)).over(of_page))
        .withColumn("ascends", F.col("handle_rank") > F.lag("handle_rank").over(of_instance.orderBy("dialog_id")))
    )
    counted = placed.groupBy(*ATTEMPT, "instance").agg(
        F.count(F.lit(1)).alias("used_dialogs"),
        F.countDistinct("file_id", "page_id").alias("pages"),
        F.max("neighbours").alias("dialogs_per_page_max"),
        F.count(F.when(F.col("neighbours") > 1, F.lit(1))).alias("dialogs_sharing_a_page"),
        # The null of the first dialog does not count.
        F.bool_and("ascends").alias("handles_sequential"),
    )
    return counted.join(F.broadcast(attempts.select(*AXES, "attempt")), on=list(ATTEMPT), how="inner").select(
        *AXES,
        "attempt",
        "instance",
        "used_dialogs",
        "pages",
        "dialogs_per_page_max",
        "dialogs_sharing_a_page",
        "handles_sequential",
    )


def latch_share(latch_waits: DataFrame, samples: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance, object and wait type: tasks seen waiting for a latch of the object's pages.

    `share_percent` is the share of all page latch waits seen in that cell and instance. `waiting_tasks_mean` is the
    mean number of waiting tasks per sample. A row without an object says that no task waited in so many samples
    (`looks`).
    """
    seen = (
        with_moments(
            latch_waits.select(*ATTEMPT, "instance", "sampled_at_ns", "wait_type", "wait_duration_ms", "object_name"),
            attempts,
        )
        .where(in_window("sampled_at_ns"))
        .withColumn("object_name", F.when(F.col("object_name") == "", UNRESOLVED).otherwise(F.col("object_name")))
        .groupBy(*ATTEMPT, "instance", "object_name", "wait_type")
        .agg(F.count(F.lit(1)).alias("times_seen"), F.max("wait_duration_ms").alias("longest_wait_ms"))
    )
    looks = (
        samples.where(F.col("metric") == "latch_looks")
        .select(*ATTEMPT, "instance", "value")
        .groupBy(*ATTEMPT, "instance")
        .agg(F.max("value").cast("long").alias("looks"))
    )
    of_instance = Window.partitionBy(*ATTEMPT, "instance").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    all_seen = F.sum("times_seen").over(of_instance)
    return (
        looks.join(seen, on=[*ATTEMPT, "instance"], how="full")
        .withColumn("times_seen", F.coalesce("times_seen", F.lit(0)))
        .withColumn("share_percent", F.round(100 * F.col("times_seen") / F.nullif(all_seen, F.lit(0)), 2))
        .join(F.broadcast(attempts.select(*AXES, "attempt")), on=list(ATTEMPT), how="inner")
        .select(
            *AXES,
            "attempt",
            "instance",
            "object_name",
            "wait_type",
            "looks",
            "times_seen",
            "share_percent",
            F.round(F.col("times_seen") / F.nullif("looks", F.lit(0)), 4).alias("waiting_tasks_mean"),
            "longest_wait_ms",
        )
    )
