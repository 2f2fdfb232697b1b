"""The judgements as a table: beside the reduced ones, `reduced/claims.parquet` and `.csv`, and in Markdown."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from harness.claims.footing import footing
from harness.claims.judgement import Judgement, Verdict

NAME = "claims"


def as_table(judgements: Sequence[Judgement], *, run_id: str, lab: str) -> pd.DataFrame:
    """One row a claim; numbers in `unit`. A number, bound or interval that there is not is null."""
    rows = [
        {
            "run_id": run_id,
            "lab": lab,
            "claim": judged.claim.key,
            "statement": judged.claim.statement,
            "section": judged.claim.section,
            "wording": judged.claim.wording,
            "published": judged.claim.published,
            "unit": judged.claim.unit,
            "holds_from": judged.claim.holds_from,
            "holds_to": judged.claim.holds_to,
            "measured": judged.measured.value if judged.measured else None,
            "measured_low": judged.measured.interval[0] if judged.measured and judged.measured.interval else None,
            "measured_high": judged.measured.interval[1] if judged.measured and judged.measured.interval else None,
            "interval_over": judged.measured.spread if judged.measured else "",
            "number": judged.number,  # as it is told: with unit and interval
            "verdict": judged.verdict.value,
            "explanation": judged.explanation,
        }
        for judged in judgements
    ]
    table = pd.DataFrame(rows)
    numbers = ["published", "holds_from", "holds_to", "measured", "measured_low", "measured_high"]
    table[numbers] = table[numbers].astype(float).replace([float("inf"), float("-inf")], float("nan"))
    return table


def markdown(table: pd.DataFrame, *, paper_model: bool) -> list[str]:
    """The lines of a table of `as_table` in Markdown, as README has one; of the model of the paper's hardware, with
    what each number rests on."""
    heads = ["the paper says", "its number", *(["the model", "obtained"] if paper_model else ["this run"])]
    lines = [f"| {' | '.join(heads)} | |", "|" + "---|" * (len(heads) + 1)]
    for row in table.to_dict("records"):
        verdict = f"**{row['verdict']}**" if row["verdict"] == Verdict.FAILS else row["verdict"]
        rests_on = [footing(row["claim"])] if paper_model else []
        lines.append("| " + " | ".join([row["statement"], row["wording"], row["number"], *rests_on, verdict]) + " |")
    return lines


def write(table: pd.DataFrame, folder: Path) -> list[Path]:
    """Writes the table into a folder of reduced tables, each file whole or not at all; raises OSError."""
    paths = [folder / f"{NAME}.parquet", folder / f"{NAME}.csv"]
    for path in paths:
        temporary = path.with_suffix(f"{path.suffix}.tmp")
        if path.suffix == ".csv":
            table.to_csv(temporary, index=False)
        else:
            table.to_parquet(temporary, index=False)
        os.replace(temporary, path)
    return paths
