"""Activity of the instances in the measured window: processors, waits, files, counters, latches, and dialogs' pages."""

from pathlib import Path

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.definitions.measures import NS_PER_S
from harness.reductions.cells import ATTEMPT, ATTEMPT_KEY, KEY, elapsed_s, in_window, with_moments

MIB = 1024 * 1024
FILE_COUNTS = (*("reads", "bytes_read", "read_stall_ms", "writes", "bytes_written", "write_stall_ms"), "growth_bytes")
UNRESOLVED = "not resolved"  # pages whose object is unknown
WAITS_KEPT = 10  # per cell and role
# Kept at any place, because the paper speaks of them, and a missing row would read as no waiting.
ALWAYS_KEPT = ("PAGELATCH_EX", "PAGELATCH_SH", "WRITELOG")
SPINLOCKS_KEPT = 10  # per cell and instance
WAITS_NAMED = 3  # in the cell's own row

# Waits of idle tasks: a queue reader in WAITFOR (RECEIVE ...), timers, background tasks. They say nothing about a
# bottleneck and would hide the waits that do. The list follows those that SQL Server's experts publish.
IDLE_WAITS = Path(__file__).with_name("idle_waits.txt").read_text(encoding="utf-8").split()


def processor_use(processors: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: processor time of the target and of all initiators, in percent of the available."""
    used = with_moments(
        processors.select(
            ATTEMPT_KEY,
            "instance",
            F.col("processor_time_ms").alias("used_ms"),
            (F.col("window_ns") / 1e6 * F.col("processors")).alias("available_ms"),
        ),
        attempts,
    )
    return used.groupBy(*ATTEMPT).agg(
        _share(F.col("instance") != "target").alias("initiator_processor_percent"),
        _share(F.col("instance") == "target").alias("target_processor_percent"),
    )


def _share(column: Column) -> Column:
    used = F.sum(F.when(column, F.col("used_ms")))
    available = F.sum(F.when(column, F.col("available_ms")))
    return F.round(F.when(available > 0, 100 * used / available), 2)


def waits(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the longest waits of each cell and role (target, or all initiators together) and those that the paper
    names, without idle waits.

    `share_percent` is the share in all waiting of that cell and role that is not idle, whether or not it is kept here.
    Sums of fifty threads and of sixteen queue readers do not compare: `wait_ms_mean` is that of one wait, and
    `waiting_tasks_mean` the mean number of tasks of one instance that wait at a time.
    """
    is_idle = F.col("wait_type").isin(*IDLE_WAITS) | F.col("wait_type").startswith("SLEEP_")
    needed = raw.where(~is_idle).select(
        ATTEMPT_KEY,
        F.when(F.col("instance") == "target", "target").otherwise("initiator").alias("role"),
        "wait_type",
        "waiting_tasks",
        "wait_time_ms",
        "signal_wait_time_ms",
    )
    by_role = Window.partitionBy(*ATTEMPT, "role")
    all_rows = by_role.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    longest_first = by_role.orderBy(F.col("wait_time_ms").desc(), "wait_type").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    totals = (
        with_moments(needed, attempts)
        .groupBy(*KEY, "measured_from_ns", "measured_to_ns", "role", "wait_type")
        .agg(*(F.sum(name).alias(name) for name in ("waiting_tasks", "wait_time_ms", "signal_wait_time_ms")))
        .where((F.col("wait_time_ms") > 0) | (F.col("waiting_tasks") > 0))
    )
    all_waiting = F.sum("wait_time_ms").over(all_rows)
    instances = F.when(F.col("role") == "target", 1).otherwise(F.col("initiators"))
    waited_s = F.col("wait_time_ms") / 1000 / elapsed_s("measured_from_ns", "measured_to_ns")
    return totals.select(
        *(*KEY, "role", F.row_number().over(longest_first).alias("place"), "wait_type"),
        *("waiting_tasks", "wait_time_ms", "signal_wait_time_ms"),
        F.round(100 * F.col("wait_time_ms") / F.nullif(all_waiting, F.lit(0)), 2).alias("share_percent"),
        _per_second("waiting_tasks").alias("waits_per_s"),
        _per_second("wait_time_ms").alias("wait_ms_per_s"),
        _each("wait_time_ms", "waiting_tasks").alias("wait_ms_mean"),
        F.round(waited_s / instances, 3).alias("waiting_tasks_mean"),
    ).where((F.col("place") <= WAITS_KEPT) | F.col("wait_type").isin(*ALWAYS_KEPT))


def top_waits(waits: DataFrame) -> DataFrame:
    """Return one row per attempt: each role's longest waits as text, such as `WRITELOG 812 ms; PAGELATCH_EX 90 ms`."""
    top = waits.where((F.col("place") <= WAITS_NAMED) & (F.col("wait_time_ms") > 0)).select(
        *ATTEMPT,
        "role",
        F.struct("place", F.format_string("%s %d ms", "wait_type", "wait_time_ms").alias("text")).alias("wait"),
    )
    return top.groupBy(*ATTEMPT).agg(
        _listed("initiator").alias("initiator_top_waits"), _listed("target").alias("target_top_waits")
    )


def _listed(role: str) -> Column:
    # collect_list leaves nulls out.
    of_role = F.array_sort(F.collect_list(F.when(F.col("role") == role, F.col("wait"))))
    return F.array_join(F.transform(of_role, lambda wait: wait["text"]), "; ")


def latches(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance and latch class for which a task waited."""
    needed = raw.where((F.col("waiting_requests") > 0) | (F.col("wait_time_ms") > 0)).select(
        ATTEMPT_KEY, "instance", "latch_class", "waiting_requests", "wait_time_ms"
    )
    return with_moments(needed, attempts).select(
        *(*KEY, "instance", "latch_class", "waiting_requests", "wait_time_ms"),
        _per_second("waiting_requests").alias("waiting_requests_per_s"),
        _per_second("wait_time_ms").alias("wait_ms_per_s"),
    )


def index_waits(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance and index on which a task waited, or a row lock was requested.

    `page_latch_share_percent` is the share of all waiting for page latches of that cell and instance, as the instance
    itself counted it for its indexes; null where no task waited. `page_latch_wait_ms_mean` is that of one wait.
    """
    counts = ("page_latch_waits", "page_latch_wait_ms", "page_io_latch_waits", "page_io_latch_wait_ms")
    locks = ("row_locks", "row_lock_waits", "row_lock_wait_ms")
    needed = raw.select(ATTEMPT_KEY, "instance", "object_name", "index_id", *counts, *locks)
    of_instance = Window.partitionBy(*ATTEMPT, "instance").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    all_waiting = F.sum("page_latch_wait_ms").over(of_instance)
    return with_moments(needed, attempts).select(
        *(*KEY, "instance", "object_name", "index_id", *counts, *locks),
        F.round(100 * F.col("page_latch_wait_ms") / F.nullif(all_waiting, F.lit(0)), 2).alias(
            "page_latch_share_percent"
        ),
        _per_second("page_latch_waits").alias("page_latch_waits_per_s"),
        _each("page_latch_wait_ms", "page_latch_waits").alias("page_latch_wait_ms_mean"),
    )


def spinlocks(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the spinlocks with the most spins of each cell and instance, with their rates."""
    counts = ("collisions", "spins", "backoffs", "sleep_ms")
    most_first = Window.partitionBy(*ATTEMPT, "instance").orderBy(F.col("spins").desc(), "spinlock")
    placed = with_moments(raw.select(ATTEMPT_KEY, "instance", "spinlock", *counts), attempts).withColumn(
        "place", F.row_number().over(most_first.rowsBetween(Window.unboundedPreceding, Window.currentRow))
    )
    return placed.where(F.col("place") <= SPINLOCKS_KEPT).select(
        *(*KEY, "instance", "place", "spinlock", *counts),
        _per_second("spins").alias("spins_per_s"),
        _per_second("backoffs").alias("backoffs_per_s"),
        F.round(F.col("spins") / F.nullif("collisions", F.lit(0)), 1).alias("spins_per_collision"),
    )


def events(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance, event and latch class: how many events were kept, and how long they waited.

    Class and durations (microseconds) are those of `latch_suspend_end` and null for other events. `events_seen` is how
    many events of all kinds the instance's session saw: of more than its buffer holds the last ones are kept.
    """
    is_latch = F.col("event") == "latch_suspend_end"
    needed = raw.select(
        *(ATTEMPT_KEY, "instance", "event", "events_seen"),
        F.when(is_latch, F.get_json_object("fields", "$.class")).alias("latch_class"),
        F.when(is_latch, F.get_json_object("fields", "$.duration").try_cast("long")).alias("duration_us"),
    )
    return (
        with_moments(needed, attempts)
        .groupBy(*KEY, "instance", "event", "latch_class")
        .agg(
            F.count(F.lit(1)).alias("events_kept"),
            F.sum("duration_us").alias("total_duration_us"),
            F.max("duration_us").alias("longest_duration_us"),
            F.max("events_seen").alias("events_seen"),
        )
    )


def leaks(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell and instance: the conversations that the cell has left there, and their state."""
    promised = ("instance", "state", "conversations", "share", "messages")
    return with_moments(raw.select(ATTEMPT_KEY, *promised), attempts).select(*KEY, *promised)


def file_io(raw: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance and database file: rates, and the mean stall of a read and of a write.

    A file that was not read, or not written, has no mean stall.
    """
    needed = raw.select(ATTEMPT_KEY, "instance", "database_name", "file_name", "file_type", *FILE_COUNTS)
    return with_moments(needed, attempts).select(
        *(*KEY, "instance", "database_name", "file_name", "file_type", *FILE_COUNTS),
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
        ATTEMPT_KEY, "instance", "sampled_at_ns", F.col("label").alias("counter"), "value"
    )
    in_window_ = with_moments(needed, attempts).where(in_window("sampled_at_ns"))
    between_s = (F.max("sampled_at_ns") - F.min("sampled_at_ns")) / NS_PER_S
    change = F.when(F.count(F.lit(1)) > 1, F.max_by("value", "sampled_at_ns") - F.min_by("value", "sampled_at_ns"))
    return in_window_.groupBy(*KEY, "instance", "counter").agg(
        F.count(F.lit(1)).cast("int").alias("samples"),
        F.round(F.avg("value"), 3).alias("mean"),
        change.alias("change"),
        F.round(change / F.nullif(between_s, F.lit(0.0)), 3).alias("change_per_s"),
    )


def _per_second(count: str, unit: int = 1) -> Column:
    return F.round(F.col(count) / unit / elapsed_s("measured_from_ns", "measured_to_ns"), 3)


def _each(total_ms: str, count: str) -> Column:
    return F.round(F.col(total_ms) / F.nullif(count, F.lit(0)), 3)


def page_spread(dialog_pages: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell and initiator: how many pages hold its used dialogs.

    `dialogs_sharing_a_page` counts the used dialogs with another used dialog on their page: their SENDs can wait for
    each other's latch. `handles_sequential` says whether handles ascend in the order in which the dialogs were begun,
    on which the 150 trick depends; null for a single dialog.
    """
    needed = dialog_pages.select(ATTEMPT_KEY, "instance", "dialog_id", "file_id", "page_id", "handle_rank")
    of_instance = Window.partitionBy(*ATTEMPT, "instance")
    of_page = Window.partitionBy(*ATTEMPT, "instance", "file_id", "page_id").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    placed = (
        with_moments(needed, attempts)
        .withColumn("neighbours", F.count(F.lit(1)).over(of_page))
        .withColumn("ascends", F.col("handle_rank") > F.lag("handle_rank").over(of_instance.orderBy("dialog_id")))
    )
    return placed.groupBy(*KEY, "instance").agg(
        F.count(F.lit(1)).alias("used_dialogs"),
        F.countDistinct("file_id", "page_id").alias("pages"),
        F.max("neighbours").alias("dialogs_per_page_max"),
        F.count(F.when(F.col("neighbours") > 1, F.lit(1))).alias("dialogs_sharing_a_page"),
        # The null of the first dialog does not count.
        F.bool_and("ascends").alias("handles_sequential"),
    )


def latch_share(latch_waits: DataFrame, samples: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per cell, instance, object and wait type: tasks seen waiting for a latch of the object's pages.

    `share_percent` is the share of all page latch waits seen in that cell and instance. `waiting_tasks_mean` is the
    mean number of waiting tasks per sample. A row without an object says that no task waited in so many samples
    (`looks`).
    """
    object_name = F.when(F.col("object_name") == "", UNRESOLVED).otherwise(F.col("object_name"))
    waiting = latch_waits.select(
        *(ATTEMPT_KEY, "instance", "sampled_at_ns", object_name.alias("object_name"), "wait_type", "wait_duration_ms")
    )
    looks = samples.where(F.col("metric") == "latch_looks").select(
        *(ATTEMPT_KEY, "instance", "sampled_at_ns"), F.col("value").cast("long").alias("looks")
    )
    of_instance = Window.partitionBy(*ATTEMPT, "instance").rowsBetween(
        Window.unboundedPreceding, Window.unboundedFollowing
    )
    all_seen = F.sum("times_seen").over(of_instance)
    is_look = F.col("object_name").isNull()
    return (
        with_moments(waiting.unionByName(looks, allowMissingColumns=True), attempts)
        .where(is_look | in_window("sampled_at_ns"))
        .groupBy(*KEY, "instance", "object_name", "wait_type")
        .agg(
            F.max("looks").alias("looks"),
            F.count("wait_type").alias("times_seen"),
            F.max("wait_duration_ms").alias("longest_wait_ms"),
        )
        .select(
            *(*KEY, "instance", "object_name", "wait_type"),
            F.max("looks").over(of_instance).alias("looks"),
            "times_seen",
            all_seen.alias("all_seen"),
            "longest_wait_ms",
        )
        .where(~is_look | (F.col("all_seen") == 0))
        .select(
            *(*KEY, "instance", "object_name", "wait_type", "looks", "times_seen"),
            F.round(100 * F.col("times_seen") / F.nullif("all_seen", F.lit(0)), 2).alias("share_percent"),
            F.round(F.col("times_seen") / F.nullif("looks", F.lit(0)), 4).alias("waiting_tasks_mean"),
            "longest_wait_ms",
        )
    )
