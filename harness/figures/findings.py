"""A run's findings in sentences, and its headline numbers, from the reduced tables alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from harness.claims.judgement import geometric_mean
from harness.figures import latched_objects, log_writes, page_spread, wait_types
from harness.figures.parts import count, kept_up, over_versions, payload_name, percent, used_dialogs
from harness.figures.reduced_run import Missing, Run
from harness.whitepaper import (
    BASE_DIALOG_RATIO,
    GAIN_MAX_PERCENT,
    GAIN_NOTICEABLE_FROM,
    LATCHED_TABLE,
    NO_GAIN_UP_TO,
    PEAK_THROUGHPUT,
    TOP_WAIT,
    TRICK_DIALOG_RATIO,
)

POINT = ["initiators", "threads", "dialog_ratio", "payload_bytes"]
NONE = "–"
BEHIND = "*"  # marks a rate that its target did not sustain


@dataclass(frozen=True)
class Finding:
    """The sentences below one heading, and the paper's words about it, if any."""

    heading: str
    sentences: tuple[str, ...]
    paper: str = ""


@dataclass(frozen=True)
class Number:
    """A number as printed, and its point of the matrix."""

    text: str = NONE
    where: str = ""


@dataclass(frozen=True)
class Headline:
    """The headline numbers for one number of initiators, as printed."""

    initiators: str
    peak_trick: Number
    peak_base: Number
    peak_paper: Number
    gain_largest: Number
    gain_median: Number
    latency: Number


def findings(run: Run) -> list[Finding]:
    """Collect all findings in the order of the figures."""
    told = [
        Finding("Throughput", tuple(_throughput(run.cells))),
        Finding(
            "The 150 trick",
            _said(lambda: _gain(run.gain)),
            f"up to +{GAIN_MAX_PERCENT.value:.0f} %; none at {NO_GAIN_UP_TO.value:.0f} threads in all or fewer, "
            f"noticeable from {GAIN_NOTICEABLE_FROM.value:.0f}",
        ),
        Finding(
            "Pages of the dialogs",
            _said(lambda: [*page_spread.sentences(run.page_spread), page_spread.sequence_sentence(run.page_spread)]),
            "with every 150th dialog, each used dialog's row has a page of its own",
        ),
        Finding(
            "Page latches",
            _said(lambda: latched_objects.sentences(run.latch_share)),
            f"above 15 threads in all, page latch contention on {LATCHED_TABLE}, which the 150 trick removes",
        ),
        Finding(
            "Waits",
            _said(lambda: [wait_types.longest(run.waits, run.cells)]),
            f"initiators {TOP_WAIT['initiator', BASE_DIALOG_RATIO]}, with the 150 trick "
            f"{TOP_WAIT['initiator', TRICK_DIALOG_RATIO]}; target {TOP_WAIT['target', TRICK_DIALOG_RATIO]}",
        ),
        Finding("Logs and files", _said(lambda: log_writes.sentences(run.file_io))),
    ]
    if len(run.versions) > 1:
        told.append(Finding("Versions", tuple(_versions(run)), "performance was comparable between 2005 and 2008"))
    return told


def headlines(run: Run) -> list[Headline]:
    rows = []
    for initiators in sorted(int(number) for number in run.cells.initiators.unique()):
        cells = run.cells[run.cells.initiators == initiators]
        gains = run.gain[run.gain.initiators == initiators]
        best = _best(cells)
        stated = PEAK_THROUGHPUT.get(initiators)
        rows.append(
            Headline(
                count(initiators),
                _peak(cells[cells.dialog_ratio == TRICK_DIALOG_RATIO]),
                _peak(cells[cells.dialog_ratio == BASE_DIALOG_RATIO]),
                Number(stated.wording) if stated else Number(),
                _largest_gain(gains),
                Number(percent(gains.gain_percent.median())) if len(gains) else Number(),
                Number(" / ".join(_milliseconds(cells, best, name) for name in ("latency_us_p50", "latency_us_p95"))),
            )
        )
    return rows


def _throughput(cells: pd.DataFrame) -> list[str]:
    best = _best(cells)
    dialogs = used_dialogs(best.dialog_ratio)
    told = [
        f"Highest rate: {best['mean']:,.0f} messages/s with {count(int(best.initiators))} × {best.threads:.0f} "
        f"threads, {payload_name(int(best.payload_bytes))} a message, {dialogs}."
    ]
    behind = int((~cells.target_kept_up).sum())
    if behind:
        told.append(
            f"In {behind} of {len(cells)} cells the target fell behind and messages queued up: those rates are not "
            "sustained (hollow in the figures)."
        )
    return told


def _best(cells: pd.DataFrame) -> pd.Series:
    """Find the point of the matrix with the highest mean over versions."""
    points = over_versions(cells, POINT, "processed_per_s").merge(kept_up(cells, POINT))
    return points.loc[points["mean"].idxmax()]


def _peak(cells: pd.DataFrame) -> Number:
    if cells.empty:
        return Number()
    best = _best(cells)
    return Number(f"{best['mean']:,.0f}{'' if best.target_kept_up else BEHIND}", _where(best))


def _where(point: pd.Series) -> str:
    return f"{point.threads:.0f} threads, {payload_name(int(point.payload_bytes))}"


def _milliseconds(cells: pd.DataFrame, point: pd.Series, column: str) -> str:
    same = (cells[POINT] == point[POINT].astype(int)).all(axis=1)
    latency = cells.loc[same, column].mean()
    return NONE if pd.isna(latency) else f"{latency / 1000:.3g} ms"


def _largest_gain(gains: pd.DataFrame) -> Number:
    sustained = gains[gains.target_kept_up]
    if sustained.empty:
        return Number()
    axes = ["threads", "payload_bytes"]
    points = over_versions(sustained, axes, "gain_percent")
    best = points.loc[points["mean"].idxmax()]
    return Number(percent(best["mean"]), _where(best))


def _gain(gain: pd.DataFrame) -> list[str]:
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    parts = []
    for few, words in (
        (gain[gain.total_threads <= NO_GAIN_UP_TO.value], f"{NO_GAIN_UP_TO.value:.0f} threads in all or fewer"),
        (gain[gain.total_threads >= GAIN_NOTICEABLE_FROM.value], f"{GAIN_NOTICEABLE_FROM.value:.0f} or more"),
    ):
        if len(few):
            parts.append(f"{percent(few.gain_percent.median())} with {words} ({_pairs(len(few))})")
    whole = f"Median gain of every 150th dialog over {_pairs(len(gain))} {percent(gain.gain_percent.median())}"
    return [f"{whole}{': ' if parts else ''}{', '.join(parts)}."]


def _versions(run: Run) -> list[str]:
    """Compare each version with the first, over the cells that both completed."""
    first, *others = run.versions
    rates = run.cells.pivot_table(index=POINT, columns="server_version", values="processed_per_s")
    told = []
    for version in others:
        both = (rates[version] / rates[first].where(rates[first] > 0)).dropna()
        if both.empty:
            told.append(f"{version} and {first} have no cell in common.")
            continue
        spread = f"; single cells {both.min():.2f} to {both.max():.2f}" if len(both) > 1 else ""
        told.append(
            f"{version} processed {geometric_mean(both):.2f} times the messages per second of {first} "
            f"(geometric mean of {_pairs(len(both))}{spread})."
        )
    return told


def _pairs(number: int) -> str:
    return f"{number:,} pair{'s' * (number > 1)} of cells"


def _said(tell: Callable[[], list[str]]) -> tuple[str, ...]:
    """Return the sentences, or the reason why there are none."""
    try:
        return tuple(sentence for sentence in tell() if sentence)
    except Missing as reason:
        text = str(reason)
        return (f"{text[:1].upper()}{text[1:]}.",)
