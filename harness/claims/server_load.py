"""Claims on the servers: which side is the bottleneck, processors, what the target does and writes."""

import functools
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from harness.claims.judgement import VISIT, Evidence, is_saturated
from harness.claims.measurement import Measurement, NotMeasured, geometric_mean, mean, quotient_of_sums
from harness.claims.throughput import with_trick
from harness.definitions.units import counted
from harness.definitions.whitepaper import GAIN_NOTICEABLE_FROM, MESSAGE_DROP_BYTES, TRICK_DIALOG_RATIO

INITIATORS = 3
SYSTEM_DATABASES = ("master", "model", "msdb", "tempdb")
WRITE_TRANSACTIONS = "Databases\\Write Transactions/sec\\"  # then the database


def initiator_is_bottleneck(evidence: Evidence) -> Measurement:
    # Cells in which nothing was sent say nothing of a bottleneck.
    cells = evidence.cells[evidence.cells.processed_per_s > 0]
    if cells.empty:
        raise NotMeasured("nothing was sent in any cell")
    kept_up = int((~is_saturated(cells)).sum())
    return Measurement(
        100 * kept_up / len(cells), f"the target kept up in {kept_up:,} of {counted(len(cells), 'cell')} that count"
    )


def receive_takes_many(evidence: Evidence) -> Measurement:
    """Measure messages per RECEIVE that returned any; each is one transaction of the receive procedure."""
    loaded = evidence.cells[evidence.cells.total_threads >= GAIN_NOTICEABLE_FROM.value]
    cells = loaded.dropna(subset=["receives_in_window"])
    if not cells.receives_in_window.sum():
        raise NotMeasured(f"no RECEIVE returned messages in a cell of {GAIN_NOTICEABLE_FROM.value:.0f} or more threads")
    rows = cells.set_index(VISIT)
    basis = f"messages per RECEIVE, {_cells(cells)} with {GAIN_NOTICEABLE_FROM.value:.0f} or more threads"
    return quotient_of_sums(rows.processed_per_s * rows.measured_s, rows.receives_in_window, basis)


def initiator_transactions(evidence: Evidence) -> Measurement:
    """Measure how many transactions a single initiator commits for each of the target's.

    Where the instances count no transactions, as embedded ones, their log writes stand in: each transaction waits for
    one, its own or a shared one. Both sides' are about the same messages.
    """
    counted, transactions, basis = evidence.counters, "transactions that wrote", "transactions that wrote"
    if len(counted):
        counted = counted[counted.counter.str.startswith(WRITE_TRANSACTIONS)].dropna(subset=["change_per_s"])
    if counted.empty:
        number = _logs(evidence).rename(columns={"writes": "number"})
        transactions, basis = "log writes", "log writes, which transactions share,"
    else:
        number = counted.rename(columns={"change_per_s": "number"})
    chosen = number[(number.initiators == 1) & (number.dialog_ratio == TRICK_DIALOG_RATIO)]
    chosen = chosen[chosen.threads >= GAIN_NOTICEABLE_FROM.value]
    side = chosen.instance.where(chosen.instance == "target", "initiator")
    numbers = chosen.groupby([*VISIT, side]).number.sum().unstack()
    load = f"the trick and {GAIN_NOTICEABLE_FROM.value:.0f} or more threads"
    if not {"initiator", "target"} <= set(numbers.columns):
        raise NotMeasured(f"{transactions} of both sides were not observed with one initiator, {load}")
    ratios = (numbers.initiator / numbers.target.where(numbers.target > 0)).dropna()
    ratios = ratios[ratios > 0]
    if ratios.empty:
        raise NotMeasured(f"no cell has {transactions} of both the initiator and the target")
    return geometric_mean(np.log(ratios), "cells", f"{basis} with 1 initiator, {load}: ")


def processors(evidence: Evidence, role: str) -> Measurement:
    """Measure the mean over the cells with three initiators, the trick and the most threads.

    The paper gives averages without their load. This load, at which it looks for peaks, is our choice.
    """
    cells = with_trick(evidence, INITIATORS)
    threads = cells.threads.max()
    used = cells[cells.threads == threads].set_index(VISIT)[f"{role}_processor_percent"].dropna()
    if used.empty:
        raise NotMeasured(f"no processor time was observed with {INITIATORS}×{threads} threads and the trick")
    return mean(used, "cells", f"{INITIATORS}×{threads} threads with the trick, our choice of load: ")


def initiators_alike(evidence: Evidence) -> Measurement:
    """Measure the bytes that the least busy initiator logs, in percent of those of the busiest."""
    logs = _logs(evidence)
    logged = logs[(logs.initiators == INITIATORS) & (logs.instance != "target")]
    by_initiator = logged.groupby([*VISIT, "instance"]).bytes_written.sum().unstack().dropna()
    if by_initiator.shape[1] < INITIATORS or not (by_initiator.max(axis=1) > 0).any():
        raise NotMeasured(f"the logs of {INITIATORS} initiators were not observed")
    least = 100 * (by_initiator.min(axis=1) / by_initiator.max(axis=1)).dropna()
    # The arithmetic mean counts an initiator that did nothing.
    return mean(least, "cells", f"bytes logged, with {INITIATORS} initiators: ")


def messages_on_disk(evidence: Evidence) -> Measurement:
    """Measure the bytes that the target logs for each payload byte that reaches its queue, and again that its
    procedure stores."""
    logs = _logs(evidence)
    logged = logs[logs.instance == "target"].groupby(VISIT).bytes_written.sum()
    cells = evidence.cells[evidence.cells.processed_per_s > 0].set_index(VISIT)
    once = cells.payload_bytes + cells.payload_bytes.clip(upper=MESSAGE_DROP_BYTES)
    ratios = (logged / (cells.processed_per_s * cells.measured_s * once)).dropna()
    ratios = ratios[ratios > 0]
    if ratios.empty:
        raise NotMeasured("the target's log writes were not observed")
    return geometric_mean(
        np.log(ratios), "cells", f"the queue takes all of a message, the table at most {MESSAGE_DROP_BYTES:,} bytes: "
    )


def _cells(rows: pd.DataFrame) -> str:
    number = rows.cell_id.nunique()
    return counted(number, "cell")


def _logs(evidence: Evidence) -> pd.DataFrame:
    """Choose the log files of the lab's own databases."""
    files = evidence.file_io
    if files.empty:
        raise NotMeasured("reads and writes of database files were not observed")
    return files[(files.file_type == "LOG") & ~files.database_name.isin(SYSTEM_DATABASES)]


MEASURES: Mapping[str, Callable[[Evidence], Measurement]] = {
    "initiator_is_bottleneck": initiator_is_bottleneck,
    "initiator_transactions": initiator_transactions,
    "receive_takes_many": receive_takes_many,
    "initiator_processors": functools.partial(processors, role="initiator"),
    "target_processors": functools.partial(processors, role="target"),
    "initiators_alike": initiators_alike,
    "messages_on_disk": messages_on_disk,
}
