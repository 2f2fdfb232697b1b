"""The paper's claims, checked against the reduced tables of a run of any lab.

`harness.whitepaper.CLAIMS` states each claim and the bounds within which it holds. This package computes, claim by
claim, the run's number that is compared with those bounds:

* `throughput`: peaks, growth with initiators and threads, payloads, the complete matrix, versions
* `gain`: what the 150 trick gains, and from how many threads on; what the paper's other recommendations gain
* `waiting`: what instances wait for, whose pages, and on which pages dialogs lie
* `server_load`: processors, which side is the bottleneck, what goes to disk

`evaluate` compares them, and `as_table` makes the table, which says how the model obtained each of its numbers.

Rules:

* The number alone decides the verdict: *holds* if it lies within the bounds, else *fails*. The spread printed beside
  it is the lowest and highest value of the cells, versions, lines, pools, seconds or runs that the number is made of.
  It is not a confidence interval. If it reaches beyond a bound, the explanation says so.
* *Not measured* is a verdict of its own: the result set lacks the cells, loads or tables that the claim speaks of.
  Nothing is extrapolated: a run without cells of 30 threads per initiator has no peak.
* A rate that the target did not sustain (`target_kept_up`) does not count as throughput, except for techniques: without
  most of them the target falls behind, and that is their effect. The explanation says so.
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
from harness.claims.judgement import Judgement, Measurement, NotMeasured, Tables, Verdict, amount, counted, figure
from harness.records import written_whole
from harness.whitepaper import CLAIMS, Claim

__all__ = ["Judgement", "Measurement", "NotMeasured", "Verdict", "as_table", "counted", "evaluate", "markdown", "write"]

Measure = Callable[[Tables], Measurement]

MEASURES: Mapping[str, Measure] = {
    **throughput.MEASURES,
    **gain.MEASURES,
    **waiting.MEASURES,
    **server_load.MEASURES,
}


def evaluate(tables: Tables) -> list[Judgement]:
    """Judge every claim of the paper, in the paper's order, by a run's reduced tables."""
    return [judge(claim, tables) for claim in CLAIMS]


def judge(claim: Claim, tables: Tables) -> Judgement:
    try:
        measured = MEASURES[claim.key](tables)
    except NotMeasured as reason:
        return Judgement(claim, Verdict.NOT_MEASURED, str(reason))
    assert math.isfinite(measured.value), claim.key
    holds, spread = within(claim, measured.value), measured.spread
    explanation = measured.basis
    if spread and (within(claim, spread.low) != holds or within(claim, spread.high) != holds):
        explanation += f"; the spread over {spread.over} reaches beyond the bound: {bounds(claim)}"
    elif not holds:
        explanation += f"; {bounds(claim)}"
    return Judgement(claim, Verdict.HOLDS if holds else Verdict.FAILS, explanation, measured)


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

# How the model of the paper's hardware obtained its number for each claim:
# * fitted: `harness calibrate` chose the model's parameters to produce this number or a closely related one. Four of
#   the five numbers that it fits are the paper's. The fifth, the gain at 3×10 threads, is ours: the paper says
#   "noticeable" and gives no number.
# * by construction: the number follows from what was written into the model. Dialogs lie in handle order on pages of
#   144 rows, only pages of sys.sysdesend are latched, the three initiators are alike, so are the versions, and the
#   target logs what it stores.
# * predicted: everything else. Only these numbers test the model.
FITTED = {
    *("peak_3_initiators", "peak_concluded", "gain_max", "gain_noticeable_from_30"),
    *("initiator_processors", "target_processors"),
}
BY_CONSTRUCTION = {
    *("matrix_complete", "versions_alike", "initiators_alike", "messages_on_disk", "trick_removes_contention"),
    *("contention_on_sysdesend", "sysdercv_no_bottleneck", "hot_page_without_trick", "page_of_its_own_with_trick"),
}


def provenance(claim: str) -> str:
    """Return `fitted`, `by construction` or `predicted` for a claim's key."""
    if claim in FITTED:
        return "fitted"
    return "by construction" if claim in BY_CONSTRUCTION else "predicted"


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
        "verdict": judged.verdict.value,
        "explanation": judged.explanation,
    }


def markdown(table: pd.DataFrame, *, paper_model: bool) -> list[str]:
    """Write a table of `as_table` as lines of Markdown; `paper_model` adds how the model obtained each number."""
    heads = ["the paper says", "its number", *(["the model", "obtained"] if paper_model else ["this run"])]
    lines = [f"| {' | '.join(heads)} | |", "|" + "---|" * (len(heads) + 1)]
    for row in table.to_dict("records"):
        verdict = f"**{row['verdict']}**" if row["verdict"] == Verdict.FAILS else row["verdict"]
        obtained = [provenance(row["claim"])] if paper_model else []
        lines.append("| " + " | ".join([row["statement"], row["wording"], row["number"], *obtained, verdict]) + " |")
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
