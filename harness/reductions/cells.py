"""The attempt of each cell that counts, the table of completed cells, and the gain of a dialog ratio for each pair."""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from harness.definitions.measures import NS_PER_S
from harness.definitions.whitepaper import BASE_DIALOG_RATIO
from harness.files.records import WITH_THROUGHPUT

AXES = ("cell_id", "block", "server_version", "initiators", "threads", "dialog_ratio", "payload_bytes")
ATTEMPT = ("cell_id", "block", "attempt")
ATTEMPT_KEY = "attempt_key"  # the number of an attempt in one reduction, which gathered records have instead of KEY
KEY = (*AXES, "attempt")  # of every raw record, and of every table but `cells` and `gain`
OPEN_LOOP = ("rate_per_s", "due_calls", "late_calls", "missed_calls")
MOMENTS = ("started_at_ns", "measured_from_ns", "measured_to_ns", "stopped_at_ns", "drained_at_ns")
# What the record of a cell says about whether it counts.
CIRCUMSTANCES = ("state", "state_reason", "settled", "readers_at_begin", "readers_at_end", "late_samples")
OF_A_WORKER = ("processor_percent", "run_delay_percent", "hub_lag_ms", "between_calls_percent")
WORKERS = tuple(f"worker_{name}_max" for name in OF_A_WORKER)
MACHINE = ("load_average_1m", "steal_percent", "others_percent")

PAIR = ("block", "server_version", "initiators", "threads", "payload_bytes")
RATES = (("processed_per_s", "factor"), ("sent_per_s", "sent_factor"), ("until_drained_per_s", "until_drained_factor"))


def completed_attempts(cells: DataFrame) -> DataFrame:
    """Return one row per cell and block: its latest completed attempt, with its moments and message counts."""
    latest_first = (
        Window.partitionBy("cell_id", "block")
        .orderBy(F.col("attempt").desc())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    promised = (ATTEMPT_KEY, *KEY, *MOMENTS, *CIRCUMSTANCES, "sent_messages", "processed_messages", *OPEN_LOOP)
    needed = cells.select(*promised, "outcome")
    completed = needed.where((F.col("outcome") == "completed") & (F.col("measured_to_ns") > F.col("measured_from_ns")))
    return completed.withColumn("place", F.row_number().over(latest_first)).where(F.col("place") == 1).select(*promised)


def beside(keys: Sequence[str], table: DataFrame, *other_tables: DataFrame) -> DataFrame:
    """Return the rows of `table` with the columns of the others beside them, null where one has no row of that key.

    It is a left join of tables that have one row per key at most. Spark plans and runs a union and one aggregate in a
    fraction of the time of as many joins.
    """
    together = table.withColumn("is_of_table", F.lit(True))
    for other in other_tables:
        together = together.unionByName(other, allowMissingColumns=True)
    names = [name for name in together.columns if name not in keys]
    joined = together.groupBy(*keys).agg(*(F.max(name).alias(name) for name in names))
    return joined.where("is_of_table").drop("is_of_table")


def with_moments(rows: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return the rows of attempts that count, with the axes and moments of their attempt instead of its number."""
    moments = attempts.select(ATTEMPT_KEY, *KEY, "started_at_ns", "measured_from_ns", "measured_to_ns")
    return rows.join(F.broadcast(moments), on=ATTEMPT_KEY, how="inner").drop(ATTEMPT_KEY)


def in_window(moment: str) -> Column:
    """Test whether `moment` lies in the measured window, [from, to)."""
    return (F.col(moment) >= F.col("measured_from_ns")) & (F.col(moment) < F.col("measured_to_ns"))


def second_of(moment: str) -> Column:
    """Return the second in which `moment` lies, counted from 0 at the start of the clients."""
    return F.floor((F.col(moment) - F.col("started_at_ns")) / NS_PER_S).cast("int")


def elapsed_s(start: str, end: str) -> Column:
    return (F.col(end) - F.col(start)) / NS_PER_S


def cells(
    attempts: DataFrame,
    *,
    measures: DataFrame,
    processors: DataFrame,
    peaks: DataFrame,
    top_waits: DataFrame,
    health: DataFrame,
    machine: DataFrame,
    growth: DataFrame,
) -> DataFrame:
    """Return one row per cell and block: axes, rates of the measured window, latencies, depths, waits, durations."""
    columns_known = beside(ATTEMPT, attempts, measures, processors, peaks, top_waits, health, machine, growth)
    until_drained_s = elapsed_s("started_at_ns", "drained_at_ns")
    return columns_known.select(
        *("cell_id", "block", "attempt", "server_version", "initiators", "threads"),
        (F.col("initiators") * F.col("threads")).alias("total_threads"),
        *("dialog_ratio", "payload_bytes", "sent_per_s", "processed_per_s", "state", "state_reason"),
        F.round(F.col("processed_messages") / F.nullif(until_drained_s, F.lit(0.0)), 2).alias("until_drained_per_s"),
        *("calls_in_window", "receives_in_window"),
        *("latency_us_p50", "latency_us_p95", "latency_us_p99", "latency_us_max"),
        *("end_to_end_us_p50", "end_to_end_us_p95", "end_to_end_us_p99", "end_to_end_negative"),
        *("queue_depth_peak", "transmission_queue_depth_peak"),
        *("initiator_processor_percent", "target_processor_percent", "initiator_top_waits", "target_top_waits"),
        *("settled", "readers_at_begin", "readers_at_end"),
        *WORKERS,
        "late_samples",
        *MACHINE,
        "growth_bytes",
        _seconds("started_at_ns", "measured_from_ns").alias("settle_s"),
        "measured_s",
        _seconds("started_at_ns", "stopped_at_ns").alias("load_s"),
        _seconds("stopped_at_ns", "drained_at_ns").alias("drain_s"),
        *("sent_messages", "processed_messages", "started_at_ns"),
        *(F.when(F.col("rate_per_s") > 0, F.col(name)).alias(name) for name in OPEN_LOOP),  # null in the closed loop
    )


def gain(cells: DataFrame) -> DataFrame:
    """Return one row per block and pair of cells that differ only in the dialog ratio, one of them using every dialog.

    `factor` is the rate of the cell with `dialog_ratio` divided by that of the other, whose columns end in `_ratio_1`.
    A pair is `valid` if the rates processed of both cells count. `until_drained_factor` compares all messages by the
    time until the last was processed, which is known of every completed cell.
    """
    is_valid = F.col("state").isin([state.value for state in WITH_THROUGHPUT]).alias("valid")
    rates = [rate for rate, _ in RATES]
    needed = cells.select(*PAIR, "total_threads", "dialog_ratio", is_valid, *rates)
    is_base = F.col("dialog_ratio") == BASE_DIALOG_RATIO
    alike = Window.partitionBy(*PAIR).rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    of_base = (F.max(F.when(is_base, F.col(name))).over(alike).alias(f"{name}_ratio_1") for name in ("valid", *rates))
    factor = F.col("processed_per_s") / F.col("processed_per_s_ratio_1")
    return (
        needed.select("*", *of_base)
        .where(~is_base & (F.col("processed_per_s_ratio_1") > 0) & F.col("processed_per_s").isNotNull())
        .select(
            *PAIR,
            "dialog_ratio",
            "total_threads",
            "processed_per_s_ratio_1",
            "processed_per_s",
            F.round(factor, 4).alias("factor"),
            F.round(100 * (factor - 1), 2).alias("gain_percent"),
            *(
                F.round(F.col(rate) / F.nullif(f"{rate}_ratio_1", F.lit(0.0)), 4).alias(name)
                for rate, name in RATES[1:]
            ),
            (F.col("valid_ratio_1") & F.col("valid")).alias("valid"),
        )
    )


def _seconds(start: str, end: str) -> Column:
    return F.round(elapsed_s(start, end), 3)
