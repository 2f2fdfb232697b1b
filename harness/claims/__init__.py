"""The paper's claims, checked against the reduced tables of a run of any lab.

`harness.definitions.whitepaper.CLAIMS` states each claim and the bounds within which it holds. This package computes,
claim by claim, the run's number that is compared with those bounds:

* `throughput`: peaks, growth with initiators and threads, payloads, the complete matrix, versions
* `gain`: what the 150 trick gains, and from how many threads on; what the paper's other recommendations gain
* `waiting`: what instances wait for, whose pages, and on which pages dialogs lie
* `server_load`: processors, which side is the bottleneck, what goes to disk

`evaluate` compares them, and `as_table` makes the table. `provenance` says how the model obtained each of its numbers.

Rules:

* A number that was repeated in three or more blocks has a 95 % interval over them. The claim *holds* if the whole
  interval lies within the bounds, *fails* if none of it does, and is else *inconclusive*. Without an interval the
  number alone decides, and the explanation says "one run, no interval". Counts of all cells have no interval either.
* Where cells that were run in three or more blocks can answer a claim, they alone do: of the others no spread is
  known. Where they cannot, all cells do, each with its first valid block. The lowest and highest of single cells, which
  the explanation may give, are no interval.
* Where a claim is about the best or the worst of several points, all blocks choose the point. Its interval is one of
  those that hold for all of these points together.
* *Not measured* is a verdict of its own: the load is an open loop, or the result set lacks the cells, loads or tables
  that the claim speaks of. Nothing is extrapolated: a run without cells of 30 threads per initiator has no peak.
* Only cells of the paper's matrix are judged. A slice of it can confirm what is said of the whole matrix, but a verdict
  `fails` becomes *not measured* there: the cells that decide may be missing.
* Only cells that count are judged (`judgement.evidence`), except for techniques: without most of them the target is
  saturated or worse, and that is their effect. The explanation says so.
* A claim that no data could refute is not measured. If nobody was seen waiting, the run says nothing about whose
  pages are waited for.
* A number that needs a machine for each instance is not measured where instances share processors or a disk.
* Gain, contention and what more threads bring are not measured on initiators with fewer schedulers than the paper's
  (`whitepaper.INITIATOR_SCHEDULERS`).
* Where the paper gives total threads without a number of initiators, its figure 5 has three, and so do the claims.
* A verdict on a simulated or embedded lab is about that lab, not about SQL Server.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from harness.claims import gain, server_load, throughput, waiting
from harness.claims.judgement import (
    Evidence,
    Judgement,
    Tables,
    Verdict,
    amount,
    choices,
    counted,
    figure,
    papers_cells,
)
from harness.claims.measurement import Measurement, NotMeasured
from harness.claims.provenance import Provenance, provenance
from harness.definitions.inference import no_interval
from harness.definitions.load_model import CLOSED_LOOP
from harness.definitions.whitepaper import CLAIMS, Claim
from harness.files.records import written_whole
from harness.output.reporting import Reporter

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

MEASURES: Mapping[str, Measure] = {**throughput.MEASURES, **gain.MEASURES, **waiting.MEASURES, **server_load.MEASURES}


# What these claims state is the most, the least or the number of cells in the whole matrix.
ABOUT_THE_WHOLE = frozenset(
    {
        "matrix_complete",
        *("peak_1_initiator", "peak_2_initiators", "peak_3_initiators", "peak_concluded", "peak_of_small_payloads"),
        *("linear_1_to_3", "linear_third_initiator", "plateau_of_large_payloads", "gain_max"),
    }
)


LINES = 3  # of progress, elsewhere than on a terminal
# Instances that take processors or a disk from each other grow less than separate ones, and are in each other's way.
ON_SEPARATE_MACHINES = frozenset(
    {
        *("initiator_processors", "target_processors", "initiator_is_bottleneck"),
        *("linear_1_to_3", "linear_third_initiator"),
    }
)
# Of sends that run at the same time.
ON_MANY_SCHEDULERS = frozenset(
    {
        *("gain_max", "no_gain_up_to_15", "gain_noticeable_from_30", "threads_raise_throughput"),
        *("initiator_top_wait_without_trick", "initiator_waits_more", "contention_above_15"),
        *("trick_removes_contention", "contention_on_sysdesend"),
    }
)


def evaluate(
    tables: Tables,
    *,
    lab: str,
    hardware: str = "",
    load_model: str = CLOSED_LOOP,
    is_whole: bool = True,
    shared: str = "",
    few_schedulers: str = "",
    by_number: bool = False,
    progress: Reporter | None = None,
) -> list[Judgement]:
    """Judge every claim of the paper, in the paper's order, by the reduced tables of a lab's run.

    `hardware` is the name of what a simulated lab modelled. No claim is judged by an open loop: its rate is what the
    user asked for, and says nothing about how fast the lab is. Only cells of the paper's matrix are judged. A run that
    is not the whole of it (`is_whole`) can confirm what is said of the whole, but not refute it. `shared` says what the
    instances share, if anything: `the instances share a disk`; `few_schedulers` that an initiator has too few, if so.
    With `by_number` a number without an interval is judged too, for steps of a model that differ in nothing but a
    parameter. `progress` counts the claims.
    """
    progress = progress or Reporter()
    origins = {claim.key: provenance(claim.key, lab=lab, hardware=hardware) for claim in CLAIMS}
    if load_model != CLOSED_LOOP:
        reason = f"the paper's clients send in a closed loop, and those of this run in an {load_model}"
        return [Judgement(claim, Verdict.NOT_MEASURED, reason, origins[claim.key]) for claim in CLAIMS]
    of_paper = papers_cells(tables)
    evidences = choices(of_paper)

    def of(claim: Claim) -> Judgement:
        if of_paper.cells.empty and len(tables.cells) and claim.key not in gain.OF_TECHNIQUES:
            reason = "the run has no cell of the paper's matrix"
            return Judgement(claim, Verdict.NOT_MEASURED, reason, origins[claim.key])
        if shared and claim.key in ON_SEPARATE_MACHINES:
            return Judgement(claim, Verdict.NOT_MEASURED, shared, origins[claim.key])
        if few_schedulers and claim.key in ON_MANY_SCHEDULERS:
            return Judgement(claim, Verdict.NOT_MEASURED, few_schedulers, origins[claim.key])
        judgement = judge(claim, evidences, origins[claim.key], by_number=by_number)
        if not is_whole and claim.key in ABOUT_THE_WHOLE and judgement.verdict is Verdict.FAILS:
            reason = f"the run is a slice of the matrix, which may lack the cells that decide: {judgement.explanation}"
            judgement = replace(judgement, verdict=Verdict.NOT_MEASURED, explanation=reason)
        return judgement

    judged: list[Judgement] = []
    progress.begin(len(CLAIMS), 0, unit="claim", every=len(CLAIMS) // LINES)
    for claim in CLAIMS:
        judged.append(of(claim))
        progress.cell_done(len(judged), claim.key, "completed", "")
    return judged


def judge(claim: Claim, choices_: Sequence[Evidence], origin: Provenance, *, by_number: bool = False) -> Judgement:
    """Judge a claim by the first of the choices that measures it."""
    reasons = []
    for evidence in choices_:
        try:
            return _judged(claim, MEASURES[claim.key](evidence), origin, by_number=by_number)
        except NotMeasured as reason:
            reasons.append(str(reason))
    return Judgement(claim, Verdict.NOT_MEASURED, reasons[-1], origin)


def _judged(claim: Claim, measured: Measurement, origin: Provenance, *, by_number: bool) -> Judgement:
    assert math.isfinite(measured.value), claim.key
    verdict = decide(claim, measured, by_number=by_number)
    clauses = [measured.basis]
    if measured.single:
        low, high = (figure(end, claim.unit) for end in measured.single)
        clauses.append(f"single values {low} to {high}")
    if measured.low is not None:
        clauses.append(f"interval over {measured.blocks} blocks")
    elif measured.blocks:
        clauses.append(no_interval(measured.blocks))
    if verdict is not Verdict.HOLDS:
        clauses.append(bounds(claim))
    return Judgement(claim, verdict, "; ".join(clauses), origin, measured)


def decide(claim: Claim, measured: Measurement, *, by_number: bool = False) -> Verdict:
    """Return the verdict: the interval decides; of a count, which no repeat would change, the number alone."""
    if measured.low is None or measured.high is None:
        if measured.blocks and not by_number:
            return Verdict.NOT_KNOWN
        return Verdict.HOLDS if claim.includes(measured.value) else Verdict.FAILS
    if claim.includes(measured.low) and claim.includes(measured.high):
        return Verdict.HOLDS
    if measured.high < claim.holds_from or measured.low > claim.holds_to:
        return Verdict.FAILS
    return Verdict.INCONCLUSIVE


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


def as_table(judgements: Sequence[Judgement], **run: str) -> pd.DataFrame:
    """Make one row per claim, numbers in the claim's `unit`; a missing number, bound or interval is null.

    `run` are the first columns, the same in all rows: `run_id`, `lab` and `load_model`.
    """
    table = pd.DataFrame([{**run, **_row(judged)} for judged in judgements])
    table[_NUMBERS] = table[_NUMBERS].astype(float).replace([float("inf"), float("-inf")], float("nan"))
    return table


def _row(judged: Judgement) -> dict[str, Any]:
    claim, measured = judged.claim, judged.measured
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
        "measured_low": measured.low if measured else None,
        "measured_high": measured.high if measured else None,
        "blocks": measured.blocks if measured else 0,  # over which the number is a mean; 0: none, or a count
        "number": judged.number,  # as printed: with unit and interval
        "provenance": judged.origin.value,
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
