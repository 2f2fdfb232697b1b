"""What a cell's state rests on: the generator's health, what else the machine did, files that grew."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.reductions.cells import ATTEMPT, ATTEMPT_KEY, MACHINE, OF_A_WORKER, WORKERS, with_moments


def workers(health: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: the largest figures of its workers; no row where nobody drove a real client."""
    needed = health.withColumnRenamed("hub_lag_ms_max", "hub_lag_ms").select(ATTEMPT_KEY, *OF_A_WORKER)
    largest = (
        F.round(F.max(F.nanvl(F.col(name), F.lit(None).cast("double"))), 2).alias(column)
        for name, column in zip(OF_A_WORKER, WORKERS, strict=True)
    )
    return with_moments(needed, attempts).groupBy(*ATTEMPT).agg(*largest)


def machine(use: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: what else its machine did; no row in virtual time."""
    return with_moments(use, attempts).select(*ATTEMPT, *(F.round(name, 2).alias(name) for name in MACHINE))


def growth(file_io: DataFrame, attempts: DataFrame) -> DataFrame:
    """Return one row per attempt: by how much its instances' database files grew in the window."""
    needed = file_io.select(ATTEMPT_KEY, "growth_bytes")
    return with_moments(needed, attempts).groupBy(*ATTEMPT).agg(F.sum("growth_bytes").alias("growth_bytes"))
