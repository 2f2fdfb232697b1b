"""The report's first numbers: peaks, gains of the trick and versions, each with its interval over blocks.

They are computed like those of the claims: from cells that count alone, and from those that were repeated in three or
more blocks where there are any.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

import pandas as pd

from harness.claims import judgement
from harness.claims.gain import gains, logarithms, valid_pairs
from harness.claims.judgement import PAIR, Evidence, of_the_paper, of_the_trick, written
from harness.claims.measurement import Measurement, NotMeasured, Points, geometric_mean, points_of
from harness.claims.throughput import PAIR as CELL_BUT_VERSION
from harness.claims.throughput import Point, candidates, fastest, logs_of
from harness.definitions.inference import intervals, no_interval
from harness.definitions.matrix import which_dialogs
from harness.definitions.units import counted
from harness.definitions.whitepaper import (
    BASE_DIALOG_RATIO,
    GAIN_NOTICEABLE_FROM,
    NO_GAIN_UP_TO,
    PEAK_THROUGHPUT,
    TRICK_DIALOG_RATIO,
)
from harness.figures import soak
from harness.figures.parts import count, higher_uncounted, payload_name, payload_words, percent, short, used_dialogs
from harness.figures.reduced_run import Missing, Run

NONE = "–"
PERCENTILES = ("p50", "p95", "p99")
INTERVAL = "95 %"

Found = TypeVar("Found")


@dataclass(frozen=True)
class Number:
    """A number as printed, its point of the matrix, and how sure it is."""

    text: str = NONE
    where: str = ""
    sure: str = ""


@dataclass(frozen=True)
class Headline:
    """The headline numbers for one number of initiators, as printed."""

    initiators: str
    peaks: Mapping[int, Number]  # by dialog ratio
    peak_paper: Number
    gain_largest: Number
    gain_mean: Number
    latency: Number
    end_to_end: Number


Columns = dict[str, Callable[[Headline], Number]]  # of a table of headlines, by heading


def headlines(run: Run) -> list[Headline]:
    """Return a row per number of initiators, from tables with a row per cell and block."""
    choices = judgement.choices(run)
    ratios = _ratios_of(run)
    rows = []
    for initiators in sorted(int(number) for number in run.cells.initiators.unique()):
        is_papers = not of_the_paper(run.cells[run.cells.initiators == initiators]).empty
        stated = PEAK_THROUGHPUT.get(initiators) if is_papers else None
        rows.append(
            Headline(
                count(initiators),
                {ratio: _peak(choices, initiators, ratio) for ratio in ratios},
                Number(stated.wording) if stated else Number(),
                _first(choices, functools.partial(_largest_gain, initiators)) or Number(),
                _first(choices, functools.partial(_mean_gain, initiators)) or Number(),
                _percentiles(choices, initiators, "latency_us"),
                _percentiles(choices, initiators, "end_to_end_us"),
            )
        )
    return rows


def peak_columns(run: Run) -> Columns:
    """Return the peak of each dialog ratio of the run."""
    return {f"peak, {which_dialogs(ratio)}": functools.partial(_peak_of, ratio) for ratio in _ratios_of(run)}


def gain_columns(run: Run) -> Columns:
    """Return the gains of the trick; none if the run lacks one of its dialog ratios.

    On a lab that can show no gain the largest one is chance, the more so the more pairs there are.
    """
    if not {BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO} <= set(_ratios_of(run)):
        return {}
    largest: Columns = {} if run.cannot_gain else {"largest gain": attrgetter("gain_largest")}
    return largest | {"mean gain": attrgetter("gain_mean")}


def _ratios_of(run: Run) -> list[int]:
    return sorted(int(ratio) for ratio in run.cells.dialog_ratio.unique())


def _peak_of(dialog_ratio: int, row: Headline) -> Number:
    return row.peaks[dialog_ratio]


def highest_rate(run: Run) -> str:
    """Say where the run's highest rate was reached."""
    best = _first(judgement.choices(run), lambda evidence: fastest(evidence, evidence.cells))
    if best is None:
        if run.cells.valid.any():
            return "No point of the matrix is valid in all versions, so there is no peak."
        none = "The cell is not" if len(run.cells) == 1 else f"None of {len(run.cells)} cells is"
        return f"{none} valid, so there is no peak."
    logs, point = best
    among = candidates(run.cells[run.cells.valid])
    rate = _number(geometric_mean(logs, "versions", among=among), "messages/s", among=among)
    return (
        f"Highest rate: {rate.text} messages/s ({rate.sure}) with {count(point.initiators)} × "
        f"{counted(point.threads, 'thread')}, {payload_words(point.payload_bytes, run.cells)}, "
        f"{used_dialogs(point.dialog_ratio)}.{higher_uncounted(run.cells, math.exp(logs.mean()))}"
    )


def gain_sentence(run: Run) -> str:
    """Say what the trick gains on average, over all pairs of cells and by their threads."""
    if of_the_trick(run.gain).empty:
        raise Missing("no cell was completed with both dialog ratios, 1 and 150")
    sentence = _first(judgement.choices(run), functools.partial(_gain_sentence, of_the_trick(run.gain)))
    if sentence is None:
        raise Missing("no pair of cells counts, so there is no gain that does")
    return sentence


# "From 1 to 22,500 total dialogs", says the paper of its matrix: without the trick there were no others than the used.
ONE_POOL = (
    "Both dialog ratios use one pool of dialogs: with and without the trick the target's sys.sysdercv has the rows of "
    "all of them. In the paper, without the trick, it had those of the used dialogs alone."
)
USED_ALONE = (
    "Only the dialogs that cells use were warmed up: the target's sys.sysdercv has no rows of the others, as in the "
    "paper without the trick."
)


def conclusion(run: Run) -> str:
    """Say in a sentence what the run found: the mean gain of the trick, or the highest rate; of a soak, what drifts."""
    if soak.is_visible(run):
        return soak.sentence(run)
    whose = "A model, not SQL Server. " if run.is_model else ""
    completed = of_the_trick(run.gain)
    gain = _first(judgement.choices(run), functools.partial(_gain_of_all, completed))
    if run.cannot_gain and gain:
        return f"{run.cannot_gain} {gain}"
    return f"{whose}{gain or highest_rate(run)}"


def _gain_of_all(completed: pd.DataFrame, evidence: Evidence) -> str:
    pairs = valid_pairs(evidence)
    gain, left_out = _gain(pairs), _left_out(completed, pairs)
    number = _pairs(pairs, _of_all(completed, left_out))
    return f"Every 150th dialog gains {gain.text} on average over {number} ({gain.sure}).{left_out}"


def version_sentences(run: Run) -> list[str]:
    """Compare each version with the first, over the cells that are valid with both."""
    first, *other_versions = run.versions
    sentences = []
    for version in other_versions:
        ratios = _first(judgement.choices(run), functools.partial(_ratios, first, version))
        if ratios is None:
            sentences.append(f"{version} and {first} have no valid cell in common.")
            continue
        ratio = _number(geometric_mean(ratios, "pairs of cells"), "times")
        sentences.append(
            f"{version} processed {ratio.text} times the messages per second of {first} (geometric mean of "
            f"{_pairs(ratios)}, {ratio.sure})."
        )
    return sentences


def _first(choices: Sequence[Evidence], value_of: Callable[[Evidence], Found]) -> Found | None:
    """Return what the first of the choices gives; None if none has what it needs."""
    for choice in choices:
        try:
            return value_of(choice)
        except NotMeasured:
            continue
    return None


def _peak(choices: Sequence[Evidence], initiators: int, dialog_ratio: int) -> Number:
    def highest(evidence: Evidence) -> tuple[pd.Series, Point, pd.DataFrame]:
        cells = _cells(evidence, initiators, dialog_ratio)
        return *fastest(evidence, cells), cells

    best = _first(choices, highest)
    if best is None:
        return Number()
    logs, point, cells = best
    among, where = candidates(cells), _where(point.threads, point.payload_bytes, cells)
    return _number(geometric_mean(logs, "versions", among=among), "messages/s", where, among=among)


def _cells(evidence: Evidence, initiators: int, dialog_ratio: int | None = None) -> pd.DataFrame:
    cells = evidence.cells[evidence.cells.initiators == initiators]
    return cells if dialog_ratio is None else cells[cells.dialog_ratio == dialog_ratio]


def _percentiles(choices: Sequence[Evidence], initiators: int, prefix: str) -> Number:
    """Return p50, p95 and p99 at the highest rate, the mean over versions and blocks."""

    def at_the_peak(evidence: Evidence) -> tuple[pd.DataFrame, Point]:
        cells = _cells(evidence, initiators)
        _, point = fastest(evidence, cells)
        return cells[(cells[list(Point._fields)] == point).all(axis=1)], point

    best = _first(choices, at_the_peak)
    if best is None:
        return Number()
    cells, point = best
    means = [cells[f"{prefix}_{name}"].mean() for name in PERCENTILES]
    if all(pd.isna(mean) for mean in means):
        return Number()
    return Number(f"{' / '.join(map(milliseconds, means))} ms", _where(point.threads, point.payload_bytes, cells))


def milliseconds(microseconds: float) -> str:
    """Write microseconds in milliseconds with two digits; a missing number as a dash."""
    return NONE if pd.isna(microseconds) else short(microseconds / 1000)


def _largest_gain(initiators: int, evidence: Evidence) -> Number:
    """Return the largest gain of a point, if any gained; where there are intervals, one distinguished from none."""
    pairs = valid_pairs(evidence, initiators)
    points = intervals(pairs, ["threads", "payload_bytes"], ["server_version"], "log_factor")
    among = points_of(gains(pairs), ["threads", "payload_bytes"])
    if points.low.notna().any():
        points = points[points.differs & (points.ratio > 1)]
        if points.empty:
            return Number("none", sure="no gain can be distinguished from none")
    best = points.loc[points.ratio.idxmax()]
    if best.ratio <= 1:
        return Number("none", sure=no_interval(int(best.blocks)))
    chosen = pairs[(pairs.threads == best.threads) & (pairs.payload_bytes == best.payload_bytes)]
    return _gain(chosen, _where(int(best.threads), int(best.payload_bytes), chosen), among=among)


def _mean_gain(initiators: int, evidence: Evidence) -> Number:
    return _gain(valid_pairs(evidence, initiators))


def _gain(pairs: pd.DataFrame, where: str = "", *, among: Points | None = None) -> Number:
    measured = geometric_mean(gains(pairs), "pairs of cells", among=among).scaled(100, -100)
    return _number(measured, "%", where, among=among)


def _gain_sentence(completed: pd.DataFrame, evidence: Evidence) -> str:
    pairs = valid_pairs(evidence)
    parts = []
    left_out = _left_out(completed, pairs)
    of_all = _of_all(completed, left_out)
    for chosen, words in (
        (pairs, f"every 150th dialog over {_pairs(pairs, of_all)}"),
        (pairs[pairs.total_threads <= NO_GAIN_UP_TO.value], f"{NO_GAIN_UP_TO.value:.0f} threads in all or fewer"),
        (pairs[pairs.total_threads >= GAIN_NOTICEABLE_FROM.value], f"{GAIN_NOTICEABLE_FROM.value:.0f} or more"),
    ):
        if len(chosen):
            gain = _gain(chosen)
            parts.append(f"{words}: {gain.text} ({gain.sure})")
    return f"Mean gain of {'; with '.join(parts)}. Means are geometric.{left_out}"


def _of_all(completed: pd.DataFrame, left_out: str) -> str:
    return f" of {len(completed[PAIR].drop_duplicates()):,}" if left_out else ""


def _left_out(completed: pd.DataFrame, pairs: pd.DataFrame) -> str:
    """Say what the pairs gain that a mean lacks, and what that would make of it; empty if it lacks none."""
    factors = logarithms(completed.assign(factor=completed.until_drained_factor)).groupby(PAIR).log_factor.mean()
    chosen = pairs.groupby(PAIR).log_factor.mean()
    missing = factors[~factors.index.isin(chosen.index)]
    if missing.empty:
        return ""
    gains = [percent(100 * math.expm1(logs.mean())) for logs in (missing, pd.concat([chosen, missing]))]
    words, pronoun = ("it gains", "it") if len(missing) == 1 else ("they gain", "them")
    return (
        f" Left out: {counted(len(missing), 'pair')} with a cell that does not count; by the time until all was "
        f"processed {words} {gains[0]}, and with {pronoun} all {len(factors):,} pairs gain {gains[1]} on average."
    )


def _ratios(first: str, other: str, evidence: Evidence) -> pd.Series:
    logs = logs_of(evidence.cells, [*CELL_BUT_VERSION, "server_version"]).unstack("server_version")
    if not {first, other} <= set(logs.columns) or (ratios := (logs[other] - logs[first]).dropna()).empty:
        raise NotMeasured("no cell is valid with both")
    return ratios


def _pairs(rows: pd.DataFrame | pd.Series, of_all: str = "") -> str:
    members = rows[PAIR] if isinstance(rows, pd.DataFrame) else rows.index.droplevel("block").to_frame()
    number = len(members.drop_duplicates())
    return f"{number:,}{of_all} pair{'s' * (number > 1)} of cells"


def _number(measured: Measurement, unit: str, where: str = "", *, among: Points | None = None) -> Number:
    """Write a number; `among` points it is the best, for which its interval holds together."""
    text, low, high = written(measured, unit)
    if unit == "%" and low is None and abs(measured.value) < 10:
        text = percent(measured.value)  # two digits of a gain near none say nothing
    elif unit == "%":
        text = f"{'+' if measured.value > 0 and text.strip('0.') else ''}{text} %"
    if low is None:
        return Number(text, where, no_interval(measured.blocks))
    together = f", all {among.number} together" if among and among.number > 1 else ""
    return Number(text, where, f"{INTERVAL}{together}: {low} to {high}")


def _where(threads: int, payload_bytes: int, rows: pd.DataFrame) -> str:
    return f"{counted(threads, 'thread')}, {payload_name(payload_bytes, rows)}"
