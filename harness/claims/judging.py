"""Each claim against its number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from harness.claims import gain, latches, servers, techniques, throughput, waits
from harness.claims.judgement import Judgement, Measurement, NotMeasured, Tables, Verdict, amount, figure
from harness.whitepaper import CLAIMS, Claim

Measure = Callable[[Tables], Measurement]

MEASURES: Mapping[str, Measure] = {
    **throughput.MEASURES,
    **gain.MEASURES,
    **waits.MEASURES,
    **latches.MEASURES,
    **servers.MEASURES,
    **techniques.MEASURES,
}


def evaluate(tables: Tables) -> list[Judgement]:
    """Every claim of the paper, in the paper's order, held against a run's reduced tables."""
    return [judge(claim, tables) for claim in CLAIMS]


def judge(claim: Claim, tables: Tables) -> Judgement:
    try:
        measured = MEASURES[claim.key](tables)
    except NotMeasured as reason:
        return Judgement(claim, Verdict.NOT_MEASURED, str(reason))
    assert math.isfinite(measured.value), claim.key
    holds = within(claim, measured.value)
    doubtful = measured.interval is not None and any(within(claim, bound) != holds for bound in measured.interval)
    explanation = measured.basis
    if doubtful:
        explanation += f"; the interval reaches over the bound: {bounds(claim)}"
    elif not holds:
        explanation += f"; {bounds(claim)}"
    return Judgement(claim, Verdict.HOLDS if holds else Verdict.FAILS, explanation, measured)


def within(claim: Claim, value: float) -> bool:
    """Whether the claim holds for a number; bounds belong to the range, with room for how floats are rounded."""
    low, high = claim.holds_from, claim.holds_to
    return (value >= low or math.isclose(value, low)) and (value <= high or math.isclose(value, high))


def bounds(claim: Claim) -> str:
    """`holds from 4,500 to 5,500 messages/s`."""
    low, high = claim.holds_from, claim.holds_to
    if low == high:
        return f"holds at {amount(low, claim.unit)}"
    if math.isinf(high):
        return f"holds from {amount(low, claim.unit)}"
    if math.isinf(low) or (low == 0 and claim.unit == "times"):
        return f"holds up to {amount(high, claim.unit)}"
    return f"holds from {figure(low, claim.unit)} to {amount(high, claim.unit)}"
