"""The table in the simulation's README is that of the reference run, and it explains each claim that fails."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import curve_fit

from harness.claims import Verdict, markdown, provenance
from harness.claims.provenance import BY_CONSTRUCTION, FITTED_TO_A_RUN, FITTED_TO_THE_PAPER
from harness.definitions.whitepaper import CLAIMS
from harness.simulation.calibration import PAPER

ROOT = Path(__file__).parents[2]
README = (ROOT / "harness" / "simulation" / "README.md").read_text(encoding="utf-8")
REFERENCE = pd.read_csv(ROOT / "results" / "reference" / "simulated" / "reduced" / "claims.csv")
FAILING = REFERENCE[REFERENCE.verdict == Verdict.FAILS]


def test_the_table_in_readme_is_that_of_the_reference_run():
    expected = "\n".join(markdown(REFERENCE))
    assert expected in README, (
        f"put this into harness/simulation/README.md (harness claims results/reference/simulated --markdown):\n{expected}"
    )


def test_readme_says_how_many_predictions_fail():
    predicted = REFERENCE[REFERENCE.provenance == "predicted"]
    holds, fails = ((predicted.verdict == verdict).sum() for verdict in (Verdict.HOLDS, Verdict.FAILS))
    assert f"{len(predicted)} claims are predicted: {holds} hold, {fails} fail" in " ".join(README.split())
    front = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"of the {len(predicted)} claims that it predicts, {holds} hold and {fails} fail" in front


@pytest.mark.parametrize(
    "head, failing",
    [
        ("What the model misses of what was not fitted:", FAILING[FAILING.provenance == "predicted"]),
        ("What it misses of what was fitted:", FAILING[FAILING.provenance == "fitted"]),
    ],
)
def test_every_failing_claim_is_explained(head, failing):
    _, _, after = README.partition(f"{head}\n\n")
    reasons = [line for line in after.partition("\n\n")[0].splitlines() if line.startswith("- *")]
    assert len(reasons) == len(failing)


def test_readme_names_every_unfitted_number_of_the_paper_that_the_model_misses():
    missed = FAILING[(FAILING.provenance == "predicted") & FAILING.published.notna()]
    _, _, sentence = README.partition("Of the paper's numbers that were not fitted,")
    for row in missed.itertuples():
        for number in (row.published, row.measured):
            assert f"{number:,.0f}" in sentence.partition("\n\n")[0]


def test_readme_says_how_far_null_models_are_from_the_embedded_lab():
    points = pd.read_csv(ROOT / "results" / "reference" / "cross-check" / "ratios.csv")
    rates = points.groupby(["initiators", "threads", "dialog_ratio"])[["processed_per_s_a", "processed_per_s_b"]].mean()
    threads = rates.index.get_level_values("threads").to_numpy()
    fitted = rates.processed_per_s_a.loc[1].xs(150, level="dialog_ratio").loc[[1, 5, 10, 50]]

    def saturating(n, k, most):
        return np.log(most * n / (n + k))

    (k, _), _ = curve_fit(saturating, fitted.index.to_numpy(float), np.log(fitted.to_numpy()), p0=[5, fitted.max()])
    between = np.exp(np.interp(np.log(threads), np.log(fitted.index), np.log(fitted)))
    found = rates.assign(saturating=threads / (threads + k), interpolated=between)
    shapes = found / found.groupby(level="initiators").transform("max")
    apart = shapes.sub(shapes.processed_per_s_a, axis=0).abs()
    median, most = (100 * apart.median()).round(), (100 * apart.max()).round()
    text = " ".join(README.split())
    assert f"| all | 66 | {median.processed_per_s_b:.0f} % | {most.processed_per_s_b:.0f} % |" in text
    assert f"is {median.saturating:.0f} % apart at the median ({most.saturating:.0f} % at most)" in text
    assert f"the fitted points {median.interpolated:.0f} % ({most.interpolated:.0f} %)" in text


def test_every_fitted_number_is_labelled_and_no_claim_has_two_labels():
    keys = {claim.key for claim in CLAIMS}
    assert keys >= FITTED_TO_THE_PAPER | FITTED_TO_A_RUN | BY_CONSTRUCTION
    assert not (FITTED_TO_THE_PAPER | FITTED_TO_A_RUN) & BY_CONSTRUCTION
    # The peak counts twice: the paper states it twice.
    assert len(FITTED_TO_THE_PAPER) > len(PAPER.fitted) + 1
    found = {provenance(key, lab="simulated", hardware="paper") for key in keys}
    assert found == {"fitted", "by construction", "predicted"}
