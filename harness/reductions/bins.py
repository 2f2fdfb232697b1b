"""Each cell bin by bin: messages sent and processed, from the start of the clients until all messages are processed.

Bins are at most a second and at most a tenth of the cell long. They are cut at the begin and the end of the measured
window and where the clients stopped, so that no bin mixes load with none: the bins of a phase are equally long, and the
rate of a bin is its count divided by its own length.
"""

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from harness.definitions.measures import NS_PER_S
from harness.reductions.cells import ATTEMPT, AXES, beside

# The phases of a cell, each from one moment to the next.
EDGES = ("started_at_ns", "measured_from_ns", "measured_to_ns", "stopped_at_ns", "drained_at_ns")
PHASES = ("settle", "measure", "stop", "drain")
BINS_PER_CELL_MIN = 10
# No cell is meant to last longer; an absurd drain time must not blow up the table.
BINS_PER_PHASE_MAX = 4 * 3600


def phases(attempts: DataFrame) -> DataFrame:
    """Return the attempts with, by phase, its length in ns, its number of bins, and the number of its first bin."""
    width_ns = F.least(
        F.lit(NS_PER_S), F.greatest((F.col(EDGES[-1]) - F.col(EDGES[0])) / BINS_PER_CELL_MIN, F.lit(1.0))
    )
    lengths = {
        phase: F.greatest(F.col(end) - F.col(begin), F.lit(0))
        for phase, (begin, end) in zip(PHASES, itertools.pairwise(EDGES), strict=True)
    }
    moments = attempts.select(
        "*",
        *(length.alias(f"{phase}_ns") for phase, length in lengths.items()),
        *(
            F.least(F.ceil(length / width_ns), F.lit(BINS_PER_PHASE_MAX)).alias(f"{phase}_bins")
            for phase, length in lengths.items()
        ),
    )
    counts = [F.col(f"{phase}_bins") for phase in PHASES]
    firsts = itertools.accumulate(counts, lambda first, count: first + count, initial=F.lit(0))
    return moments.select(
        "*", *(first.alias(f"{name}_first") for name, first in zip((*PHASES, "no"), firsts, strict=True))
    )


def bin_of(at_ns: NDArray[np.int64], attempt: Mapping[str, Any]) -> NDArray[np.int64]:
    """Return the number of the bin, from 0, in which each moment lies; `attempt` is a row of `phases`.

    What clocks of two machines put before the start or after the end belongs to the first or the last bin.
    """
    inside = [
        attempt[f"{phase}_first"]
        + (at_ns - attempt[begin]) * attempt[f"{phase}_bins"] // max(attempt[f"{phase}_ns"], 1)
        for phase, begin in zip(PHASES, EDGES[:-1], strict=True)
    ]
    before_end = [at_ns < attempt[end] for end in EDGES[1:-1]]
    found: NDArray[np.int64] = np.clip(np.select(before_end, inside[:-1], inside[-1]), 0, attempt["no_first"] - 1)
    return found


def bins(attempts: DataFrame, course: DataFrame) -> DataFrame:
    """Return one row per bin of a cell in a block: its phase, begin and length in seconds, messages sent and processed.

    `course` is that of `harness.reductions.message_records`.
    """
    by_phase = phases(attempts)
    grid = by_phase.select(
        *AXES,
        "attempt",
        EDGES[0],
        F.explode(
            F.array(
                *(
                    F.struct(
                        F.lit(phase).alias("phase"),
                        F.col(begin).alias("begin_ns"),
                        *(F.col(f"{phase}_{name}").alias(name) for name in ("ns", "bins", "first")),
                    )
                    for phase, begin in zip(PHASES, EDGES[:-1], strict=True)
                )
            )
        ).alias("of"),
    ).where("of.bins > 0")
    # The begin of a bin is the first nanosecond that `bin_of` puts into it.
    cut = grid.select("*", F.expr("explode(sequence(0, int(of.bins) - 1))").alias("part")).select(
        *AXES,
        "attempt",
        (F.col("of.first") + F.col("part")).cast("int").alias("bin"),
        F.col("of.phase").alias("phase"),
        *(
            F.expr(f"of.begin_ns - {EDGES[0]} + ceil((part + {step}) * of.ns / of.bins)").alias(name)
            for step, name in ((0, "from_ns"), (1, "to_ns"))
        ),
    )
    counted = course.groupBy(*ATTEMPT, "bin").agg(F.sum("sent").alias("sent"), F.sum("processed").alias("processed"))
    return beside((*ATTEMPT, "bin"), cut, counted).select(
        *(*AXES, "attempt", "bin", "phase"),
        F.round(F.col("from_ns") / NS_PER_S, 6).alias("from_s"),
        F.round((F.col("to_ns") - F.col("from_ns")) / NS_PER_S, 6).alias("length_s"),
        F.coalesce("sent", F.lit(0)).alias("sent_messages"),
        F.coalesce("processed", F.lit(0)).alias("processed_messages"),
    )
