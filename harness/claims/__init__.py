"""The paper's claims, checked against the reduced tables of a run of any lab.

`harness.whitepaper.CLAIMS` states each claim and the bounds within which it holds. This package computes, claim by
claim, the run's number that is compared with those bounds:

* `throughput`: peaks, growth with initiators and threads, payloads, the complete matrix, versions
* `gain`: what the 150 trick gains, and from how many threads on; what the paper's other recommendations gain
* `waiting`: what instances wait for, whose pages, and on which pages dialogs lie
* `server_load`: processors, which side is the bottleneck, what goes to disk

`evaluate` compares them, and `as_table` makes the table. `provenance` says how the model obtained each of its numbers.

Rules:

* The number alone decides the verdict: *holds* if it lies within the bounds, else *fails*. The spread printed beside
  it is the lowest and highest value of the cells, versions, lines, pools, seconds or runs that the number is made of.
  It is not a confidence interval. If it reaches beyond a bound, the explanation says so.
* *Not measured* is a verdict of its own: the result set lacks the cells, loads or tables that the claim speaks of.
  Nothing is extrapolated: a run without cells of 30 threads per initiator has no peak.
* Only valid cells count (`judgement.evidence`), except for techniques: without most of them the target falls behind,
  and that is their effect. The explanation says so.
* A claim that no data could refute is not measured. If nobody was seen waiting, the run says nothing about whose
  pages are waited for.
* Where the paper gives total threads without a number of initiators, its figure 5 has three, and so do the claims.
* A verdict on a simulated or embedded lab is about that lab, not about SQL Server.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from harness.claims import gain, server_load, throughput, waiting
from harness.claims.judgement import (
    Evidence,
    Judgement,
    Measurement,
    NotMeasured,
    Tables,
    Verdict,
    amount,
    counted,
    evidence,
    figure,
    over_blocks,
)
from harness.claims.provenance import Provenance, provenance
from harness.records import written_whole
from harness.whitepaper import CLAIMS, Claim

__all__ = [
    "Judgement",
    "Measurement",
    "NotMeasured",
    "Provenance",
    "Verdict",
    "as_table",
    "counted",
    "evaluate",
    "markdown",
    "provenance",
    "write",
]

Measure = Callable[[Evidence], Measurement]

MEASURES: Mapping[str, Measure] = {
    **throughput.MEASURES,
    **gain.MEASURES,
    **waiting.MEASURES,
    **server_load.MEASURES,
}


def evaluate(tables: Tables, *, lab: str, hardware: str = "") -> list[Judgement]:
    """Judge every claim of the paper, in the paper's order, by the reduced tables of a lab's run.

    `hardware` is the name of what a simulated lab modelled.
    """
    found = evidence(over_blocks(tables))
    return [judge(claim, found, provenance(claim.key, lab=lab, hardware=hardware)) for claim in CLAIMS]


def judge(claim: Claim, found: Evidence, origin: Provenance) -> Judgement:
    try:
        measured = MEASURES[claim.key](found)
    except NotMeasured as reason:
        return Judgement(claim, Verdict.NOT_MEASURED, str(reason), origin)
    assert math.isfinite(measured.value), claim.key
    holds, spread = within(claim, measured.value), measured.spread
    explanation = measured.basis
    if spread and (within(claim, spread.low) != holds or within(claim, spread.high) != holds):
        explanation += f"; the spread over {spread.over} reaches beyond the bound: {bounds(claim)}"
    elif not holds:
        explanation += f"; {bounds(claim)}"
    return Judgement(claim, Verdict.HOLDS if holds else Verdict.FAILS, explanation, origin, measured)


def within(claim: Claim, value: float) -> bool:
    """Whether a number lies within the claim's bounds; the bounds themselves count, whatever floats round them to."""
    low, high = claim.holds_from, claim.holds_to
    return (value >= low or math.isclose(value, low)) and (value <= high or math.isclose(value, high))


def bounds(claim: Claim) -> str:
    """Write the bounds of a claim: `holds from 4,500 to 5,500 messages/s`."""
    low, high = claim.holds_from, claim.holds_to
    if low == high:
        return f"holds at {amount(low, claim.unit)}"
    if math.isinf(high):
        return f"holds from {amount(low, claim.unit)}"
    if math.isinf(low) or (low == 0 and claim.unit == "times"):
        return f"holds up to {amount(high, claim.unit)}"
    return f"holds from {figure(low, claim.unit)} to {amount(high, claim.unit)}"


# -- the judgements as a table ----------------------------------------------------------------------------------------

NAME = "claims"
_NUMBERS = ["published", "holds_from", "holds_to", "measured", "measured_low", "measured_high"]


def as_table(judgements: Sequence[Judgement], *, run_id: str, lab: str) -> pd.DataFrame:
    """Make one row per claim, numbers in the claim's `unit`; a missing number, bound or spread is null."""
    table = pd.DataFrame([{"run_id": run_id, "lab": lab, **_row(judged)} for judged in judgements])
    table[_NUMBERS] = table[_NUMBERS].astype(float).replace([float("inf"), float("-inf")], float("nan"))
    return table


def _row(judged: Judgement) -> dict[str, Any]:
    claim, measured = judged.claim, judged.measured
    spread = measured.spread if measured else None
    return {
        "claim": claim.key,
        "statement": claim.statement,
        "section": claim.section,
        "wording": claim.wording,
        "published": claim.published,
        "unit": claim.unit,
        "holds_from": claim.holds_from,
        "holds_to": claim.holds_to,
        "measured": measured.value if measured else None,
        "measured_low": spread.low if spread else None,
        "measured_high": spread.high if spread else None,
        "spread_over": spread.over if spread else "",
        "number": judged.number,  # as printed: with unit and spread
        "provenance": judged.provenance.value,
        "verdict": judged.verdict.value,
        "explanation": judged.explanation,
    }


def markdown(table: pd.DataFrame) -> list[str]:
    """Write a table of `as_table` as lines of Markdown."""
    lines = ["| the paper says | its number | this run | provenance | verdict |", "|---|---|---|---|---|"]
    for row in table.to_dict("records"):
        verdict = f"**{row['verdict']}**" if row["verdict"] == Verdict.FAILS else row["verdict"]
        parts = (row["statement"], row["wording"], row["number"], row["provenance"], verdict)
        lines.append(f"| {' | '.join(parts)} |")
    return lines


def write(table: pd.DataFrame, folder: Path) -> list[Path]:
    """Write the table into a folder of reduced tables, each file whole or not at all; raises OSError."""
    paths = [folder / f"{NAME}.parquet", folder / f"{NAME}.csv"]
    for path in paths:
        with written_whole(path) as file:
            if path.suffix == ".csv":
                table.to_csv(file, index=False)
            else:
                table.to_parquet(file, index=False)
    return paths
