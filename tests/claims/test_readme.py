"""README's table of the model is that of the run that is kept, and says why each claim fails that fails."""

from pathlib import Path

import pandas as pd

from harness.claims import Verdict, markdown
from harness.claims.footing import BY_CONSTRUCTION, FITTED, footing
from harness.simulation.calibration import PAPER
from harness.whitepaper import CLAIMS

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
KEPT = pd.read_csv(ROOT / "results" / "reference" / "simulated" / "reduced" / "claims.csv")


def test_the_table_in_readme_is_the_kept_runs():
    expected = "\n".join(markdown(KEPT, paper_model=True))
    assert expected in README, (
        f"put this into README.md (harness claims results/reference/simulated --markdown):\n{expected}"
    )


def test_every_claim_that_fails_is_explained():
    _, _, after = README.partition("Why claims fail here:\n\n")
    reasons = [line for line in after.partition("\n\n")[0].splitlines() if line.startswith("- *")]
    assert len(reasons) == (KEPT.verdict == Verdict.FAILS).sum()


def test_fitted_claims_are_no_more_than_the_numbers_of_the_fit_and_the_peak_told_twice():
    keys = {claim.key for claim in CLAIMS}
    assert keys >= FITTED | BY_CONSTRUCTION and not FITTED & BY_CONSTRUCTION
    assert len(FITTED) == len(PAPER.fitted) + 1
    assert {footing(key) for key in keys} == {"fitted", "by construction", "predicted"}
