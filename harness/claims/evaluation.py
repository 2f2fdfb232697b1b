"""Compare each claim with the run's number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from harness.claims import advice, gain, latched_pages, server_load, throughput, waiting
from harness.claims.judgement import Judgement, Measurement, NotMeasured, Tables, Verdict, amount, figure
from harness.whitepaper import CLAIMS, Claim

Measure = Callable[[Tables], Measurement]

MEASURES: Mapping[str, Measure] = {
    **throughput.MEASURES,
    **gain.MEASURES,
    **waiting.MEASURES,
    **latched_pages.MEASURES,
    **server_load.MEASURES,
    **advice.MEASURES,
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
