"""`report.html`: one self-contained page with a run's findings in sentences, claims, figures and circumstances."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from harness.claims import Judgement, counted
from harness.claims.judgement import geometric_mean, of_the_trick, over_blocks
from harness.doctor.instance_settings import LICENCE
from harness.figures import instance_activity, pages
from harness.figures.parts import count, over_versions, payload_name, percent, used_dialogs
from harness.figures.reduced_run import LAB_WORDS, Missing, Run, footer, listed, origin
from harness.records import ResultsError, written_whole
from harness.whitepaper import (
    BASE_DIALOG_RATIO,
    GAIN_MAX_PERCENT,
    GAIN_NOTICEABLE_FROM,
    LATCHED_TABLE,
    NO_GAIN_UP_TO,
    PEAK_THROUGHPUT,
    PUBLISHED,
    TITLE,
    TOP_WAIT,
    TRICK_DIALOG_RATIO,
)

NAME = "report.html"
POINT = ["initiators", "threads", "dialog_ratio", "payload_bytes"]
NONE = "–"
LATENCIES = ("latency_us_p50", "latency_us_p95")


def write(run: Run, figures: Sequence[Path], judged: Sequence[Judgement]) -> Path:
    """Write the page into the run's folder, whole or not at all.

    `figures` are the files that were drawn, `judged` the judgements of the paper's claims.
    """
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    foot, circumstances, invalid = footer(run), facts(run), invalid_cells(run.cells)
    run = over_blocks(run)
    page = environment.get_template("report.html").render(
        origin=origin(run.lab, run.load_model, run.versions),
        run_id=run.run_id,
        lab=run.lab,
        warning=LAB_WORDS.get(run.lab, f"{run.lab} lab"),
        licence=LICENCE if run.lab == "sqlserver" else "",
        warnings=_warnings(run),
        paper=f"{TITLE}, {PUBLISHED}",
        findings=findings(run),
        headlines=headlines(run),
        judged=judged,
        verdicts=counted(judged),
        several_versions=len(run.versions) > 1,
        invalid=invalid,
        figures=[(path.stem, _embedded(path)) for path in figures if path.suffix == ".svg"],
        footer=foot,
        facts=circumstances,
    )
    path = run.folder / NAME
    try:
        with written_whole(path) as file:
            file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ResultsError(f"{path} cannot be written: {error.strerror}") from None
    return path


def facts(run: Run) -> dict[str, Any]:
    """Return the manifest's circumstances by heading, without those that it lacks."""
    manifest = run.manifest
    planned = manifest.get("cells")
    machine = "Machine that computed the model" if run.is_model else "Machine of the harness and its clients"
    facts = {
        "Run": {
            "started": manifest.get("started_at"),
            "finished": manifest.get("finished_at") or "not finished",
            "cells completed": f"{len(run.cells)} of {planned}" if planned else str(len(run.cells)),
            "load": manifest.get("load_model"),
            "harness": manifest.get("harness_version"),
            "commit": manifest.get("git_commit"),
        },
        "Settings": manifest.get("settings"),
        "Parameters of the model": manifest.get("model"),
        machine: manifest.get("machine"),
        "Software": manifest.get("versions"),
        **{_instance_name(instance): instance for instance in manifest.get("instances") or []},
    }
    return {heading: fact for heading, fact in facts.items() if fact}


def _warnings(run: Run) -> list[str]:
    """List the warnings of the preflight, a line each, with the version if there are several."""
    by_version = run.manifest.get("findings") or {}
    return [
        f"{version + ', ' if len(by_version) > 1 else ''}{finding['instance']}, {finding['check']}: {finding['text']}"
        for version, findings_ in by_version.items()
        for finding in findings_
        if finding["severity"] == "warning"
    ]


def _instance_name(instance: dict[str, Any]) -> str:
    version = instance.get("lab_version")
    return f"Instance {instance.get('name', '?')}{f', version {version}' if version else ''}"


def _embedded(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


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
    findings = [
        Finding("Throughput", tuple(_throughput(run.cells))),
        Finding(
            "The 150 trick",
            _said(lambda: _gain(of_the_trick(run.gain))),
            f"up to +{GAIN_MAX_PERCENT.value:.0f} %; none at {NO_GAIN_UP_TO.value:.0f} threads in all or fewer, "
            f"noticeable from {GAIN_NOTICEABLE_FROM.value:.0f}",
        ),
        Finding(
            "Pages of the dialogs",
            _said(lambda: [*pages.spread_sentences(run.page_spread), pages.sequence_sentence(run.page_spread)]),
            "with every 150th dialog, each used dialog's row has a page of its own",
        ),
        Finding(
            "Page latches",
            _said(lambda: pages.latch_sentences(run.latch_share)),
            f"above 15 threads in all, page latch contention on {LATCHED_TABLE}, which the 150 trick removes",
        ),
        Finding(
            "Waits",
            _said(lambda: [instance_activity.longest_waits(run.waits, run.cells)]),
            f"initiators {TOP_WAIT['initiator', BASE_DIALOG_RATIO]}, with the 150 trick "
            f"{TOP_WAIT['initiator', TRICK_DIALOG_RATIO]}; target {TOP_WAIT['target', TRICK_DIALOG_RATIO]}",
        ),
        Finding("Logs and files", _said(lambda: instance_activity.log_sentences(run.file_io))),
    ]
    if len(run.versions) > 1:
        findings.append(Finding("Versions", tuple(_versions(run)), "performance was comparable between 2005 and 2008"))
    return findings


def invalid_cells(cells: pd.DataFrame) -> list[dict[str, str]]:
    """List the cells that do not count, by state, each with its state and the reason."""
    invalid = cells[~cells.valid].sort_values(["state", "cell_id", "block"])
    return [
        {
            "cell_id": f"{row.cell_id}{f' (block {row.block})' if row.block > 1 else ''}",
            "state": str(row.state),
            "reason": str(row.state_reason),
        }
        for row in invalid.itertuples()
    ]


def headlines(run: Run) -> list[Headline]:
    rows = []
    for initiators in sorted(int(number) for number in run.cells.initiators.unique()):
        cells = run.cells[run.cells.initiators == initiators]
        gains = of_the_trick(run.gain)
        gains = gains[(gains.initiators == initiators) & gains.valid]
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
                Number()
                if best is None
                else Number(" / ".join(_milliseconds(cells, best, name) for name in LATENCIES)),
            )
        )
    return rows


def _throughput(cells: pd.DataFrame) -> list[str]:
    best = _best(cells)
    if best is None:
        return [f"None of {len(cells)} cells is valid, so there is no peak."]
    dialogs = used_dialogs(best.dialog_ratio)
    findings = [
        f"Highest rate: {best['mean']:,.0f} messages/s with {count(int(best.initiators))} × {best.threads:.0f} "
        f"threads, {payload_name(int(best.payload_bytes))} a message, {dialogs}."
    ]
    states = cells[~cells.valid].state.value_counts()
    if len(states):
        counted_states = listed([f"{number} {state}" for state, number in states.items()])
        findings.append(
            f"{states.sum()} of {len(cells)} cells do not count ({counted_states}): they are hollow in the figures and "
            "listed under “Cells that do not count”."
        )
    return findings


def _best(cells: pd.DataFrame) -> pd.Series | None:
    """Find the point with the highest mean over versions among those whose cells are all valid."""
    points = over_versions(cells, POINT, "processed_per_s")
    valid = points[points.valid]
    return None if valid.empty else valid.loc[valid["mean"].idxmax()]


def _peak(cells: pd.DataFrame) -> Number:
    best = _best(cells) if len(cells) else None
    return Number() if best is None else Number(f"{best['mean']:,.0f}", _where(best))


def _where(point: pd.Series) -> str:
    return f"{point.threads:.0f} threads, {payload_name(int(point.payload_bytes))}"


def _milliseconds(cells: pd.DataFrame, point: pd.Series, column: str) -> str:
    same = (cells[POINT] == point[POINT].astype(int)).all(axis=1)
    latency = cells.loc[same, column].mean()
    return NONE if pd.isna(latency) else f"{latency / 1000:.3g} ms"


def _largest_gain(gains: pd.DataFrame) -> Number:
    if gains.empty:
        return Number()
    points = over_versions(gains, ["threads", "payload_bytes"], "gain_percent")
    best = points.loc[points["mean"].idxmax()]
    return Number(percent(best["mean"]), _where(best))


def _gain(gain: pd.DataFrame) -> list[str]:
    if gain.empty:
        raise Missing("no cell was completed with both dialog ratios")
    gain = gain[gain.valid]
    if gain.empty:
        raise Missing("no pair of cells is valid, so there is no gain that counts")
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
    rates = run.cells[run.cells.valid].pivot_table(index=POINT, columns="server_version", values="processed_per_s")
    sentences = []
    for version in others:
        rates = rates.reindex(columns=run.versions)
        both = (rates[version] / rates[first].where(rates[first] > 0)).dropna()
        if both.empty:
            sentences.append(f"{version} and {first} have no valid cell in common.")
            continue
        spread = f"; single cells {both.min():.2f} to {both.max():.2f}" if len(both) > 1 else ""
        sentences.append(
            f"{version} processed {geometric_mean(both):.2f} times the messages per second of {first} "
            f"(geometric mean of {_pairs(len(both))}{spread})."
        )
    return sentences


def _pairs(number: int) -> str:
    return f"{number:,} pair{'s' * (number > 1)} of cells"


def _said(tell: Callable[[], list[str]]) -> tuple[str, ...]:
    """Return the sentences, or the reason why there are none."""
    try:
        return tuple(sentence for sentence in tell() if sentence)
    except Missing as reason:
        text = str(reason)
        return (f"{text[:1].upper()}{text[1:]}.",)
