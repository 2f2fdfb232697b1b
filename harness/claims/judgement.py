"""The rows of a run that claims are judged by, and a claim's verdict with the number and the reason behind it."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
import pandas as pd

from harness.claims.measurement import Measurement
from harness.claims.provenance import Provenance
from harness.definitions.inference import BLOCKS_MIN
from harness.definitions.matrix import DIALOG_RATIOS, INITIATORS, PAYLOADS_BYTES, THREADS
from harness.definitions.whitepaper import TRICK_DIALOG_RATIO, Claim
from harness.files.records import WITH_THROUGHPUT, State
from harness.files.workload_file import PAPER


class Verdict(StrEnum):
    HOLDS = "holds"
    FAILS = "fails"
    INCONCLUSIVE = "inconclusive"  # the number's interval crosses a bound
    NOT_KNOWN = "not known from one run"  # the number has no interval: it needs repeats
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, kw_only=True)
class Tables:
    """The reduced tables of a run; a table that the run lacks is empty and has no columns."""

    cells: pd.DataFrame = field(default_factory=pd.DataFrame)
    seconds: pd.DataFrame = field(default_factory=pd.DataFrame)
    gain: pd.DataFrame = field(default_factory=pd.DataFrame)
    waits: pd.DataFrame = field(default_factory=pd.DataFrame)
    page_spread: pd.DataFrame = field(default_factory=pd.DataFrame)
    latch_share: pd.DataFrame = field(default_factory=pd.DataFrame)
    index_waits: pd.DataFrame = field(default_factory=pd.DataFrame)
    spinlocks: pd.DataFrame = field(default_factory=pd.DataFrame)
    file_io: pd.DataFrame = field(default_factory=pd.DataFrame)
    counters: pd.DataFrame = field(default_factory=pd.DataFrame)
    leaks: pd.DataFrame = field(default_factory=pd.DataFrame)
    techniques: pd.DataFrame = field(default_factory=pd.DataFrame)


VISIT = ["cell_id", "block"]  # one measurement of a cell
PAIR = ["server_version", "initiators", "threads", "payload_bytes"]  # of cells that differ in the dialog ratio
GAIN = [*PAIR, "dialog_ratio"]  # of a pair's cell with this ratio against that with ratio 1; the axes of a cell


@dataclass(frozen=True, kw_only=True)
class Evidence(Tables):
    """What claims are judged by: the rows of cells that count alone, and beside them all cells that were completed."""

    completed: pd.DataFrame


def evidence(tables: Tables) -> Evidence:
    """Leave out the rows of cells that do not count. This is the only place where claims choose cells by their state.

    The table of techniques stays whole: without most of them the target is saturated, and that is their effect.
    """
    cells = tables.cells[is_valid(tables.cells)] if len(tables.cells) else tables.cells
    gain = tables.gain[is_valid(tables.gain)] if len(tables.gain) else tables.gain
    return _of_visits(tables, cells, gain, tables.cells)


def of_the_paper(rows: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows of cells that the paper's matrix has, whatever the version, in runs of the paper's workload."""
    if "workload" in rows:
        rows = rows[rows.workload == PAPER]
    axes = {
        "initiators": INITIATORS,
        "threads": THREADS,
        "dialog_ratio": DIALOG_RATIOS,
        "payload_bytes": PAYLOADS_BYTES,
    }
    if not axes.keys() <= set(rows.columns):
        return rows
    return rows[np.logical_and.reduce([rows[name].isin(values) for name, values in axes.items()])]


def papers_cells(tables: Tables) -> Tables:
    """Return the tables without the rows of cells that the paper did not run; techniques have loads of their own."""
    parts = {part.name: getattr(tables, part.name) for part in fields(Tables)}
    return Tables(**{name: table if name == "techniques" else of_the_paper(table) for name, table in parts.items()})


def choices(tables: Tables) -> list[Evidence]:
    """Return what a number may be made of, best first: cells that were repeated, then all cells as one run."""
    valid = evidence(tables)
    often = repeated(valid)
    return [valid] if often is None else [often, one_run(valid)]


def repeated(tables: Evidence) -> Evidence | None:
    """Keep the cells that were completed in three or more blocks. None if there is no such cell.

    They need not be valid in all of them. Else a peak that is valid in two of three blocks would leave its place to a
    lower one. A number made of several cells is over those that are valid in three blocks, if any is (`inference`).
    """
    if tables.completed.empty:
        return None
    blocks = tables.completed.groupby(GAIN).block.nunique()
    often = blocks[blocks >= BLOCKS_MIN].index
    cells, gain = (
        table[pd.MultiIndex.from_frame(table[GAIN]).isin(often)] if len(table) else table
        for table in (tables.cells, tables.gain)
    )
    return None if cells.empty and gain.empty else _of_visits(tables, cells, gain, tables.completed)


def one_run(tables: Evidence) -> Evidence:
    """Keep of each cell the first block in which it is valid, as if all were of one."""
    cells, gain = (
        table.sort_values("block").drop_duplicates(member) if len(table) else table
        for table, member in ((tables.cells, ["cell_id"]), (tables.gain, GAIN))
    )
    single = _of_visits(tables, cells, gain, tables.completed)
    parts = {part.name: getattr(single, part.name) for part in fields(Tables)}
    merged = {name: table.assign(block=1) for name, table in parts.items() if "block" in table and name != "techniques"}
    return replace(single, **merged)


def _of_visits(tables: Tables, cells: pd.DataFrame, gain: pd.DataFrame, completed: pd.DataFrame) -> Evidence:
    """Keep the rows of the same cells and blocks as `cells`, and those of `gain`."""
    parts = {part.name: getattr(tables, part.name) for part in fields(Tables)} | {"cells": cells, "gain": gain}
    if len(tables.cells):
        visits = pd.MultiIndex.from_frame(cells[VISIT])
        for name in parts.keys() - {"cells", "techniques"}:
            if "cell_id" in parts[name]:
                parts[name] = parts[name][pd.MultiIndex.from_frame(parts[name][VISIT]).isin(visits)]
    return Evidence(**parts, completed=completed)


def is_valid(rows: pd.DataFrame) -> pd.Series:
    """Whether the rate processed of each cell counts, or those of both cells of each pair."""
    return rows.state.isin(WITH_THROUGHPUT) if "state" in rows else rows.valid.astype(bool)


def is_saturated(cells: pd.DataFrame) -> pd.Series:
    """Whether the target of each cell could not process what was sent."""
    return cells.state == State.SATURATED


# What the rows of a table are the same in, whatever their block.
_CELL = ["cell_id", "server_version", "initiators", "threads", "total_threads", "dialog_ratio", "payload_bytes"]
_SAME = ["run_id", "lab", "workload", "payload_is_mean", *_CELL]
_WAIT = [*_SAME, "role", "wait_type"]
_FILE = [*_SAME, "instance", "database_name", "file_name", "file_type"]
SomeTables = TypeVar("SomeTables", bound=Tables)


def over_blocks(tables: SomeTables) -> SomeTables:
    """Return the tables with one row where cells, gain, waits and files have one for each block.

    Rates, latencies and factors become their geometric means over the blocks in which the cell is valid, or over all
    if it is valid in none. Waits and file activity become arithmetic means over the cell's blocks; a block without such
    a row counts as zero. The other tables stay.
    """
    cells = _geometric(tables.cells, _SAME)
    gain = _geometric(tables.gain, _SAME)
    if gain is not tables.gain:
        gain["gain_percent"] = 100 * (gain.factor - 1)
    blocks = tables.cells.groupby("cell_id").block.nunique() if _has_blocks(tables.cells) else None
    waits, files = (
        table if blocks is None or table.empty else _arithmetic(table, same, blocks)
        for table, same in ((tables.waits, _WAIT), (tables.file_io, _FILE))
    )
    return replace(tables, cells=cells, gain=gain, waits=waits, file_io=files)


def _has_blocks(table: pd.DataFrame) -> bool:
    return len(table) > 0 and table.block.nunique() > 1


def _geometric(table: pd.DataFrame, same: Sequence[str]) -> pd.DataFrame:
    """Merge the rows that are the same but for their block, the valid ones where there are any.

    A flag is true if it is in all of them.
    """
    if not _has_blocks(table):
        return table
    keys = [name for name in same if name in table]
    counts = is_valid(table)
    table = table[counts | ~counts.groupby([table[name] for name in keys]).transform("any")]
    measured = table.drop(columns=["block", "attempt"], errors="ignore")
    flags = [name for name in measured.select_dtypes(bool) if name not in keys]
    numbers = [name for name in measured.select_dtypes("number") if name not in keys]
    averaged = [name for name in measured if name not in (*keys, *flags, *numbers)]
    groups = measured.groupby(keys, as_index=True)
    merged = groups[averaged].first().join(groups[flags].all())
    values = measured[numbers]
    group_columns = [measured[name] for name in keys]
    means = np.exp(np.log(values.where(values > 0)).groupby(group_columns).mean())
    # Where a block has no positive value there is no geometric mean.
    means = means.where(~(values <= 0).groupby(group_columns).any(), values.groupby(group_columns).mean())
    return merged.join(means).reset_index()[list(measured)]


def _arithmetic(table: pd.DataFrame, same: Sequence[str], blocks: pd.Series) -> pd.DataFrame:
    keys = [name for name in same if name in table]
    measured = table.drop(columns=["block", "attempt"])
    numbers = [name for name in measured.select_dtypes("number") if name not in keys]
    sums = measured.groupby(keys)[numbers].sum().reset_index()
    sums[numbers] = sums[numbers].div(sums.cell_id.map(blocks), axis=0)
    return sums


def of_the_trick(gain: pd.DataFrame) -> pd.DataFrame:
    """Choose the pairs of the 150 trick from a table of gains, which may have other dialog ratios."""
    return gain[gain.dialog_ratio == TRICK_DIALOG_RATIO] if len(gain) else gain


def geometric_mean(values: pd.Series) -> float:
    """Return the mean in which twice and half cancel; NaN without a positive value."""
    positive = values[values > 0]
    return float(np.exp(np.log(positive).mean())) if len(positive) else float("nan")


@dataclass(frozen=True, slots=True)
class Judgement:
    """A claim, its verdict on a run, the run's number and where that comes from, and the reason in one line."""

    claim: Claim
    verdict: Verdict
    explanation: str
    provenance: Provenance
    measured: Measurement | None = None

    @property
    def origin(self) -> Provenance:
        """Where the number comes from, or would come from in a model."""
        is_missing = self.measured is None and self.provenance is Provenance.MEASURED
        return Provenance.NOWHERE if is_missing else self.provenance

    @property
    def number(self) -> str:
        """The run's number with its interval, such as `4,810 messages/s (4,790 to 4,830)`; else a dash."""
        if self.measured is None:
            return "–"
        text, low, high = written(self.measured, self.claim.unit, includes=self.claim.includes)
        number = with_unit(text, self.claim.unit)
        return number if low is None else f"{number} ({low} to {high})"


# What a model was fitted to, or was built to do, is no success of the model.
COUNTED = (Provenance.MEASURED, Provenance.NOWHERE, Provenance.PREDICTED)


def counted(judgements: Sequence[Judgement]) -> str:
    """Count the verdicts of what was measured or predicted: `39 claims: 16 hold, 3 fail, 20 not measured`."""
    counting = [judged for judged in judgements if judged.provenance in COUNTED]
    number = Counter(judged.verdict for judged in counting)
    verdicts = {Verdict.HOLDS: "hold", Verdict.FAILS: "fail"}
    counts = ", ".join(f"{number[verdict]} {verdicts.get(verdict, verdict)}" for verdict in Verdict if number[verdict])
    left_out = len(judgements) - len(counting)
    if not left_out:
        return f"{len(counting)} claims: {counts}"
    return f"{len(counting)} claims are predicted: {counts}. {left_out} are fitted or by construction, and do not count"


_JOINED: Mapping[str, str] = {"%": " %", "times": "×"}
_SINGULAR: Mapping[str, str] = {"dialogs": "dialog", "messages": "message", "total threads": "total thread"}


# Of a number from one run, whose spread is unknown: rates repeat to a few percent, what is made of two rates less well.
# A number that was the same in every block has as many digits as a rate.
DIGITS_OF_A_RATE, DIGITS_OF_ONE_RUN = 3, 2
MOST_DECIMALS = 4


def written(
    measured: Measurement, unit: str, *, includes: Callable[[float], bool] | None = None
) -> tuple[str, str | None, str | None]:
    """Write a number and the ends of its interval, if it has one, in the digits that the interval supports.

    There are more digits where fewer would change which of the three `includes` accepts.
    """
    decimals = None
    ends = (measured.value, measured.low, measured.high)
    if measured.blocks:
        decimals = supported_decimals(measured, unit)
        while (
            includes is not None
            and decimals < MOST_DECIMALS
            and any(includes(end) != includes(round(end, decimals)) for end in ends if end is not None)
        ):
            decimals += 1
    text, low, high = (None if end is None else figure(end, unit, decimals) for end in ends)
    assert text is not None
    return text, low, high


def supported_decimals(measured: Measurement, unit: str) -> int:
    """Return the decimals of which the interval leaves the last one open; negative to round to tens or hundreds."""
    half = 0.0 if measured.low is None or measured.high is None else (measured.high - measured.low) / 2
    if half > abs(measured.value) * 1e-9:
        return min(MOST_DECIMALS, -math.floor(math.log10(half)))
    if measured.value == 0:
        return 0
    is_of_one_run = measured.low is None and unit != "messages/s"
    digits = DIGITS_OF_ONE_RUN if is_of_one_run else DIGITS_OF_A_RATE
    exponent = int(f"{measured.value:.{digits - 1}e}".partition("e")[2])  # of the rounded number: 9.99 is 10
    return min(MOST_DECIMALS, digits - 1 - exponent)


def amount(value: float, unit: str) -> str:
    """Write a number with its unit: `4,812 messages/s`, `3.02×`, `1 dialog`, `−97 points ahead`."""
    return with_unit(figure(value, unit), unit)


def with_unit(number: str, unit: str) -> str:
    unit_words = _SINGULAR.get(unit, unit) if number == "1" else unit
    return f"{number}{_JOINED.get(unit) or f' {unit_words}'}"


def figure(value: float, unit: str, decimals: int | None = None) -> str:
    """Write a number with so many decimals, or in a sensible number of digits; negative decimals round to tens."""
    if decimals is not None:
        text = f"{round(value, decimals) + 0.0:,.{max(0, decimals)}f}"
    elif unit == "times":
        text = f"{value:.2f}"
    elif value == 0 or abs(value) >= 100 or math.isclose(value, round(value)):
        text = f"{value:,.0f}"
    else:
        text = f"{value:.1f}"
    return text.replace("-", "−")
