"""Summaries of reduced runs. Unlike that of a cell, they need the figures' own numbers."""

import math
from pathlib import Path
from typing import Any

import pandas as pd

from harness.experiments.rate_steps import step_id
from harness.figures import rate_lines, reduced_run, results_table, technique_bars, trick_answer
from harness.figures.headlines import conclusion
from harness.files import manifest_file
from harness.results.summary import Summary, milliseconds, states, states_by_cell


def read(folder: Path) -> Summary:
    """Summarize a run; raises ResultsError if it was not reduced, or no step of it was completed."""
    if reduced_run.is_techniques_run(folder):
        return _techniques(folder)
    if reduced_run.is_rates_run(folder):
        return _rates(folder)
    run = reduced_run.read(folder)
    headings, *rows = results_table.rows(run)
    findings = [*states(folder), *_counted(folder)]
    if trick_answer.is_asked(run):
        return Summary(headings, rows, [], [*findings, *trick_answer.evidence(run)], trick_answer.answer(run))
    return Summary(headings, rows, [], findings, conclusion(run))


def _counted(folder: Path) -> list[str]:
    return [reduced_run.COUNTED] if reduced_run.is_counted(manifest_file.read(folder)) else []


def _rates(folder: Path) -> Summary:
    means = rate_lines.over_blocks(rate_lines.read(folder))
    latencies = ["call p50, ms", "p95, ms", "p99, ms"]
    headings = ["load", "asked/s", "sent/s", "processed/s", *latencies, "late", "never", "state"]
    rows = []
    of_steps, names = states_by_cell(folder), {}
    for step in means.itertuples():
        is_open = pd.notna(step.percent)
        key = step_id(int(step.percent) if is_open else None)
        names[key] = f"open loop, {step.percent:.0f} %" if is_open else "closed loop"
        rows.append(
            [
                names[key],
                f"{step.asked_per_s:,.0f}" if is_open else "",
                f"{step.sent_per_s:,.0f}{'' if step.was_made else ' (not kept)'}",
                f"{step.processed_per_s:,.0f}",
                *(_latency_words(step, name) for name in ("p50", "p95", "p99")),
                *(f"{value:,.0f}" if is_open else "" for value in (step.late_calls, step.missed_calls)),
                of_steps.get(key, "unknown"),
            ]
        )
    how = "Latency counts from the intended start; in the closed loop, from the call."
    repeats = rate_lines.repeats_words(int(means.blocks.max()))
    return Summary(headings, rows, [how, repeats], [*states(folder, "steps", names), *_counted(folder)])


def _latency_words(step: Any, percentile: str) -> str:
    """`12.3 (11.9 to 12.8)`; without the interval where it is not known."""
    value, low, high = (getattr(step, f"latency_us_{percentile}{end}") / 1000 for end in ("", "_low", "_high"))
    if math.isnan(value):
        return "too few calls"
    return f"{value:,.2f}{'' if math.isnan(low) else f' ({low:,.2f} to {high:,.2f})'}"


def _techniques(folder: Path) -> Summary:
    means = technique_bars.over_runs(technique_bars.read(folder))
    titles = dict(zip(means.technique, means.title, strict=True))
    headings = ["step", "processed/s", "ratio", "to", "call p95, ms", "state"]
    rows = []
    of_steps = states_by_cell(folder)
    for row in means.itertuples():
        latency, state = milliseconds(row.latency_us_p95), of_steps.get(row.technique, "unknown")
        rows.append([row.title, f"{row.processed:,.0f}", row.factor, titles.get(row.compared_with, ""), latency, state])
    how = "Messages that the target processed per second, and their ratio to those of another step:"
    repeats = technique_bars.repeats_words(int(means.runs.max()))
    return Summary(headings, rows, [how, repeats], states(folder, "runs", titles))
