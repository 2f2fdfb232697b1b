"""What is shown of a run at its end: a table of texts, how to read it, and what to know about its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.figures import rate_lines, reduced_run, results_table, technique_bars, trick_answer
from harness.rates.rate_steps import step_id
from harness.records import State, read_manifest
from harness.sweep import journal
from harness.sweep.attempt import Measured
from harness.sweep.loop import label

STATES_SHOWN = 10


@dataclass(frozen=True)
class Summary:
    """What is shown of a run at its end."""

    table: pd.DataFrame  # of texts, for reading; numbers are in the reduced tables
    explanation: list[str]  # sentences: how to read the table
    findings: list[str]  # sentences: which rows are not valid, and of the matrix `trick` whether the trick pays


def read(folder: Path) -> Summary:
    """Summarize a run; raises ResultsError if it was not reduced, or no step of it was completed."""
    if reduced_run.is_techniques_run(folder):
        return _techniques(folder)
    if reduced_run.is_rates_run(folder):
        return _rates(folder)
    run = reduced_run.read(folder)
    answer = [*trick_answer.evidence(run), trick_answer.answer(run)] if trick_answer.is_asked(run) else []
    return Summary(_table(results_table.rows(run)), [], [*states(folder), *_counted(folder), *answer])


def of_cell(folder: Path, measured: Measured) -> Summary:
    """Summarize a run of one cell that was not reduced, with the columns of the table of a matrix."""
    headings = ["sent/s", "processed/s", "call p50, ms", "p95, ms", "p99, ms", "state"]
    latencies = [_milliseconds(measured.latencies_us[name]) for name in ("p50", "p95", "p99")]
    row = [f"{measured.sent_per_s:,.0f}", f"{measured.processed_per_s:,.0f}", *latencies, measured.state]
    findings = []
    if (kept := measured.punctuality).rate_per_s:
        calls = f"{kept.due:,} calls were due, {kept.late:,} started late, {kept.missed:,} never"
        findings.append(f"open loop: latency counts from the intended start; {calls}")
    findings.append(f"accounting: {measured.accounted}")
    return Summary(_table([headings, row]), [], [*findings, *states(folder)])


def states(folder: Path, units: str = "cells", names: Mapping[str, str] | None = None) -> list[str]:
    """Say which cells are not valid, each with the reason; or that all are.

    `names` are what the table calls its rows, if not by the journal's names.
    """
    entries = journal.completed(folder / journal.NAME)
    others = [entry for entry in entries if entry.state != State.VALID]
    lines = []
    if len(entries) > 1:
        counted = f"{len(others)} of {len(entries)} {units} are not valid:"
        lines.append(counted if others else f"All {len(entries)} {units} are valid.")
    for entry in others[:STATES_SHOWN]:
        name = (names or {}).get(entry.cell, entry.cell)
        lines.append(f"{label(name, entry.block)} is {entry.state}: {entry.state_reason}")
    if more := Counter(entry.state for entry in others[STATES_SHOWN:]):
        counts = ", ".join(f"{number} {state}" for state, number in more.most_common())
        lines.append(f"and {more.total()} more ({counts}): reasons in {folder / journal.NAME}")
    return lines


def states_by_cell(folder: Path) -> dict[str, str]:
    """The state of each step or technique of a run in all its blocks: `behind`, or `2 of 3 valid`."""
    found: dict[str, list[str]] = {}
    for entry in journal.completed(folder / journal.NAME):
        found.setdefault(entry.cell, []).append(entry.state)
    return {
        cell: states[0] if len(set(states)) == 1 else f"{states.count(State.VALID)} of {len(states)} valid"
        for cell, states in found.items()
    }


def _counted(folder: Path) -> list[str]:
    return [reduced_run.COUNTED] if reduced_run.is_counted(read_manifest(folder)) else []


def _rates(folder: Path) -> Summary:
    means = rate_lines.over_blocks(rate_lines.read(folder))
    rows = [
        ["load", "asked/s", "sent/s", "processed/s", "call p50, ms", "p95, ms", "p99, ms", "late", "never", "state"]
    ]
    of_steps, names = states_by_cell(folder), {}
    for step in means.itertuples():
        is_open = pd.notna(step.percent)
        key = step_id(int(step.percent) if is_open else None)
        names[key] = f"open loop, {step.percent:.0f} %" if is_open else "closed loop"
        rows.append(
            [
                names[key],
                f"{step.asked_per_s:,.0f}" if is_open else "",
                f"{step.sent_per_s:,.0f}{'' if step.was_made else ' (not made)'}",
                f"{step.processed_per_s:,.0f}",
                *(_latency_words(step, name) for name in ("p50", "p95", "p99")),
                *(f"{value:,.0f}" if is_open else "" for value in (step.late_calls, step.missed_calls)),
                of_steps[key],
            ]
        )
    how = "Latency counts from the intended start; in the closed loop, from the call."
    repeats = rate_lines.repeats_words(int(means.blocks.max()))
    return Summary(_table(rows), [how, repeats], [*states(folder, "steps", names), *_counted(folder)])


def _latency_words(step: Any, percentile: str) -> str:
    """`12.3 (11.9 to 12.8)`; without the interval where it is not known."""
    value, low, high = (getattr(step, f"latency_us_{percentile}{end}") / 1000 for end in ("", "_low", "_high"))
    if math.isnan(value):
        return "too few calls"
    return f"{value:,.2f}{'' if math.isnan(low) else f' ({low:,.2f} to {high:,.2f})'}"


def _techniques(folder: Path) -> Summary:
    means = technique_bars.over_runs(technique_bars.read(folder))
    titles = dict(zip(means.technique, means.title, strict=True))
    rows = [["step", "processed/s", "ratio", "to", "call p95, ms", "state"]]
    of_steps = states_by_cell(folder)
    for row in means.itertuples():
        latency, state = _milliseconds(row.latency_us_p95), of_steps[row.technique]
        rows.append([row.title, f"{row.processed:,.0f}", row.factor, titles.get(row.compared_with, ""), latency, state])
    how = "Messages that the target processed per second, and their ratio to those of another step:"
    repeats = technique_bars.repeats_words(int(means.runs.max()))
    return Summary(_table(rows), [how, repeats], states(folder, "runs", titles))


def _milliseconds(microseconds: float) -> str:
    return "–" if math.isnan(microseconds) else f"{microseconds / 1000:,.2f}"


def _table(rows: list[list[str]]) -> pd.DataFrame:
    return pd.DataFrame(rows[1:], columns=rows[0])
