"""What is shown of a run at its end: a table of texts, how to read it, and what to know about its rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.definitions.inference import no_interval
from harness.definitions.matrix import label
from harness.definitions.measures import QUANTILES
from harness.definitions.units import counted
from harness.files import journal
from harness.files.records import WITH_THROUGHPUT, State
from harness.run.attempt import Measured

if TYPE_CHECKING:
    import pandas as pd

STATES_SHOWN = 10


@dataclass(frozen=True)
class Summary:
    """What is shown of a run at its end."""

    headings: list[str]
    rows: list[list[str]]  # texts, for reading; numbers are in the reduced tables
    explanation: list[str]  # sentences: how to read the table
    findings: list[str]  # sentences: which rows do not count, and of the matrix `trick` what speaks for its answer
    conclusion: str = ""  # what the run found, in a sentence that is true by itself

    @property
    def table(self) -> pd.DataFrame:
        """The rows under their headings."""
        import pandas as pd  # noqa: PLC0415  commands print the rows, and need not wait for it

        return pd.DataFrame(self.rows, columns=self.headings)


def of_cell(folder: Path, measured: Measured) -> Summary:
    """Summarize a run of one cell that was not reduced, with the columns of the table of a matrix."""
    headings = ["sent/s", "processed/s", "call p50, ms", "p95, ms", "p99, ms", "state"]
    latencies = [milliseconds(measured.columns[f"latency_us_{name}"]) for name in QUANTILES]
    row = [f"{measured.sent_per_s:,.0f}", f"{measured.processed_per_s:,.0f}", *latencies, measured.state]
    findings = []
    if (punctual := measured.punctuality).rate_per_s:
        calls = f"{counted(punctual.due, 'call')} due, {punctual.late:,} started late, {punctual.missed:,} never"
        findings.append(f"open loop: latency counts from the intended start; {calls}")
    findings.append(f"accounting: {measured.accounted}")
    rate = f"The target processed {measured.processed_per_s:,.0f} messages/s ({no_interval(1)})"
    counts = "" if measured.state in WITH_THROUGHPUT else f", which does not count: the cell is {measured.state}"
    return Summary(headings, [row], [], [*findings, *states(folder)], f"{rate}{counts}.")


def states(folder: Path, units: str = "cells", names: Mapping[str, str] | None = None) -> list[str]:
    """Say how many cells count, and which do not, each with the reason.

    `names` are what the table calls its rows, if not by the journal's names.
    """
    entries = journal.completed(folder / journal.NAME)
    uncounted = [entry for entry in entries if entry.state not in WITH_THROUGHPUT]
    saturated = [entry for entry in entries if entry.state == State.SATURATED]
    lines = []
    if len(entries) > 1:
        how_many = f"{len(entries) - len(uncounted)} of {len(entries)}" if uncounted else f"All {len(entries)}"
        most = f", {len(saturated)} of them saturated: for the rate processed and the gain alone" if saturated else ""
        lines.append(f"{how_many} {units} count{most}.")
    elif saturated:
        uncounted = saturated
    for entry in uncounted[:STATES_SHOWN]:
        name = (names or {}).get(entry.cell, entry.cell)
        lines.append(f"{label(name, entry.block)} is {entry.state}: {entry.state_reason}")
    if leaking := [entry for entry in entries if entry.leak]:
        name = (names or {}).get(leaking[0].cell, leaking[0].cell)
        lines.append(
            f"{len(leaking)} of {len(entries)} {units} left conversations behind, first "
            f"{label(name, leaking[0].block)}: {leaking[0].leak}"
        )
    if more := Counter(entry.state for entry in uncounted[STATES_SHOWN:]):
        counts = ", ".join(f"{number} {state}" for state, number in more.most_common())
        lines.append(f"and {more.total()} more ({counts}): reasons in {folder / journal.NAME}")
    return lines


def states_by_cell(folder: Path) -> dict[str, str]:
    """The state of each step or technique of a run in all its blocks: `behind`, or `2 of 3 valid`."""
    by_cell: dict[str, list[str]] = {}
    for entry in journal.completed(folder / journal.NAME):
        by_cell.setdefault(entry.cell, []).append(entry.state)
    return {
        cell: states[0] if len(set(states)) == 1 else f"{states.count(State.VALID)} of {len(states)} valid"
        for cell, states in by_cell.items()
    }


def milliseconds(microseconds: float | None) -> str:
    return "–" if microseconds is None or math.isnan(microseconds) else f"{microseconds / 1000:,.2f}"
