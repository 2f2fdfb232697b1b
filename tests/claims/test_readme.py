"""The table in the simulation's README is that of the reference run, and it explains each claim that fails."""

from pathlib import Path

import pandas as pd

from harness.claims import BY_CONSTRUCTION, FITTED, Verdict, markdown, provenance
from harness.simulation.calibration import PAPER
from harness.whitepaper import CLAIMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "harness" / "simulation" / "README.md").read_text(encoding="utf-8")
REFERENCE = pd.read_csv(ROOT / "results" / "reference" / "simulated" / "reduced" / "claims.csv")


def test_the_table_in_readme_is_that_of_the_reference_run():
    expected = "\n".join(markdown(REFERENCE, paper_model=True))
    assert expected in README, (
        f"put this into harness/simulation/README.md (harness claims results/reference/simulated --markdown):\n{expected}"
    )


def test_every_failing_claim_is_explained():
    _, _, after = README.partition("Why claims fail here:\n\n")
    reasons = [line for line in after.partition("\n\n")[0].splitlines() if line.startswith("- *")]
    assert len(reasons) == (REFERENCE.verdict == Verdict.FAILS).sum()


def test_as_many_claims_are_fitted_as_the_fit_has_numbers_and_the_peak_counts_twice():
    keys = {claim.key for claim in CLAIMS}
    assert keys >= FITTED | BY_CONSTRUCTION and not FITTED & BY_CONSTRUCTION
    assert len(FITTED) == len(PAPER.fitted) + 1
    assert {provenance(key) for key in keys} == {"fitted", "by construction", "predicted"}
