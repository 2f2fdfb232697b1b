"""Claims on the servers: which side is the bottleneck, processors, what the target does and writes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.intervals import bootstrap, geometric_mean, interval, of_proportion
from harness.claims.judgement import Measurement, NotMeasured, Tables
from harness.claims.throughput import with_trick
from harness.whitepaper import GAIN_NOTICEABLE_FROM, MESSAGE_DROP_BYTES, TRICK_DIALOG_RATIO

INITIATORS = 3
SYSTEM_DATABASES = ("master", "model", "msdb", "tempdb")


def initiator_is_bottleneck(tables: Tables) -> Measurement:
    busy = tables.cells[(tables.cells.processed_per_s > 0) | ~tables.cells.target_kept_up]  # not where nothing was sent
    if busy.empty:
        raise NotMeasured("nothing was sent in any cell")
    kept_up, cells = int(busy.target_kept_up.sum()), len(busy)
    low, high = of_proportion(kept_up, cells)
    return Measurement(
        100 * kept_up / cells,
        f"the target kept up with what was sent in {kept_up} of {cells} cells",
        (100 * low, 100 * high),
        "cells",
    )


def receive_takes_many(tables: Tables) -> Measurement:
    """Messages a RECEIVE that returned any: each is one transaction of the receive procedure."""
    cells = _loaded(tables.cells)
    rows = pd.DataFrame(
        {"messages": cells.processed_per_s * cells.measured_s, "receives": cells.receives_in_window}
    ).dropna()
    if not rows.receives.sum():
        raise NotMeasured(f"no RECEIVE in cells of {GAIN_NOTICEABLE_FROM.value:.0f} or more threads")
    return Measurement(
        _quotient(rows.to_numpy(dtype=float)),
        f"messages a RECEIVE, {len(rows)} cells with {GAIN_NOTICEABLE_FROM.value:.0f} or more threads",
        bootstrap(rows, _quotient),
        "cells",
    )


def initiator_transactions(tables: Tables) -> Measurement:
    """Log writes of the only initiator for each of the target's, whose logs are of the same messages.

    No instance counts the transactions of its broker; each waits for a log write, its own or one that it shares.
    """
    logs = _logs(tables)
    chosen = logs[(logs.initiators == 1) & (logs.dialog_ratio == TRICK_DIALOG_RATIO)]
    chosen = chosen[chosen.threads >= GAIN_NOTICEABLE_FROM.value]
    side = chosen.instance.where(chosen.instance == "target", "initiator")
    writes = chosen.groupby(["cell_id", side]).writes.sum().unstack()
    if not {"initiator", "target"} <= set(writes.columns):
        raise NotMeasured(
            f"the log writes of one initiator and the target, with the trick and {GAIN_NOTICEABLE_FROM.value:.0f} or "
            "more threads, were not observed"
        )
    ratios = (writes.initiator / writes.target.where(writes.target > 0)).dropna()
    ratios = ratios[ratios > 0]
    if ratios.empty:
        raise NotMeasured("the logs of an initiator and its target were not both written")
    return Measurement(
        geometric_mean(ratios),
        f"log writes, which transactions share, geometric mean of {len(ratios)} cells with 1 initiator, the trick and "
        f"{GAIN_NOTICEABLE_FROM.value:.0f} or more threads",
        interval(ratios),
        "cells",
    )


def _quotient(rows: np.ndarray) -> float:
    messages, receives = rows.sum(axis=0)
    return float(messages / receives) if receives else float("nan")


def processors(tables: Tables, role: str) -> Measurement:
    """Mean over the cells with three initiators, the trick and the most threads. The paper says of no load that its
    averages are of it: this one, where peaks are looked for, is our choice."""
    cells = with_trick(tables.cells, INITIATORS)
    cells = cells[cells.threads == cells.threads.max()]
    used = cells[[f"{role}_processor_percent"]].dropna()
    if used.empty:
        raise NotMeasured(f"no processor time with {INITIATORS}×{cells.threads.max()} threads and the trick")
    return Measurement(
        float(used.iloc[:, 0].mean()),
        f"mean of {len(used)} cells of {INITIATORS}×{cells.threads.max()} threads with the trick, our choice of load",
        bootstrap(used, lambda rows: float(rows.mean())),
        "cells",
    )


def initiators_alike(tables: Tables) -> Measurement:
    """Bytes logged by the least busy initiator, of those by the busiest."""
    logs = _logs(tables)
    logged = logs[(logs.initiators == INITIATORS) & (logs.instance != "target")]
    by_initiator = logged.groupby(["cell_id", "instance"]).bytes_written.sum().unstack()
    complete = by_initiator.dropna()
    if complete.shape[1] < INITIATORS or not (complete.max(axis=1) > 0).any():
        raise NotMeasured(f"what {INITIATORS} initiators logged was not observed")
    least = (complete.min(axis=1) / complete.max(axis=1)).dropna()
    percent = 100 * least.to_frame()
    return Measurement(
        # Arithmetic: an initiator that did nothing has its weight.
        float(percent.to_numpy().mean()),
        f"bytes logged, mean of {len(least)} cells with {INITIATORS} initiators",
        bootstrap(percent, lambda rows: float(rows.mean())),
        "cells",
    )


def messages_on_disk(tables: Tables) -> Measurement:
    """Bytes that the target logged for each byte of a payload that its procedure stores."""
    logs = _logs(tables)
    logged = logs[logs.instance == "target"].groupby("cell_id").bytes_written.sum()
    cells = tables.cells[tables.cells.processed_per_s > 0].set_index("cell_id")
    stored = cells.processed_per_s * cells.measured_s * cells.payload_bytes.clip(upper=MESSAGE_DROP_BYTES)
    ratios = (logged / stored).dropna()
    ratios = ratios[ratios > 0]
    if ratios.empty:
        raise NotMeasured("what the target logged was not observed")
    return Measurement(
        geometric_mean(ratios),
        f"geometric mean of {len(ratios)} cells; of a message, {MESSAGE_DROP_BYTES:,} bytes at most are stored",
        interval(ratios),
        "cells",
    )


def _loaded(cells: pd.DataFrame) -> pd.DataFrame:
    return cells[cells.total_threads >= GAIN_NOTICEABLE_FROM.value]


def _logs(tables: Tables) -> pd.DataFrame:
    """Reads and writes of the logs of the lab's databases."""
    files = tables.file_io
    if files.empty:
        raise NotMeasured("reads and writes of database files were not observed")
    return files[(files.file_type == "LOG") & ~files.database_name.isin(SYSTEM_DATABASES)]


MEASURES: Mapping[str, Callable[[Tables], Measurement]] = {
    "initiator_is_bottleneck": initiator_is_bottleneck,
    "initiator_transactions": initiator_transactions,
    "receive_takes_many": receive_takes_many,
    "initiator_processors": functools.partial(processors, role="initiator"),
    "target_processors": functools.partial(processors, role="target"),
    "initiators_alike": initiators_alike,
    "messages_on_disk": messages_on_disk,
}
