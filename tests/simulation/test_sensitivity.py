"""How claims move with the model's parameters."""

import math
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import pytest

from harness.claims import Judgement, Measurement, Provenance, Verdict
from harness.claims.judgement import Tables
from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import CLAIMS
from harness.simulation import calibration, parameters, sensitivity
from harness.simulation.calibration import VERSION, Bench
from harness.simulation.parameters import Parameters
from tests.commands import harness

PAPER = parameters.read("paper").with_values({"send_us": 351})  # whatever it is fitted to
FAST, SLOW, ABSENT = CLAIMS[1:4]


def judge(models: Sequence[Parameters]) -> Sequence[Sequence[Judgement]]:
    return [judgements(model) for model in models]


def judgements(model: Parameters) -> Sequence[Judgement]:
    """One claim moves with a cost, one stays, one is not measured."""
    send_us = model.value("send_us")
    fast = Verdict.HOLDS if send_us < 400 else Verdict.FAILS
    return (
        Judgement(FAST, fast, "", Provenance.PREDICTED, Measurement(1e6 / send_us, "")),
        Judgement(SLOW, Verdict.HOLDS, "", Provenance.PREDICTED, Measurement(7.0, "")),
        Judgement(ABSENT, Verdict.NOT_MEASURED, "no cells", Provenance.PREDICTED),
    )


def test_each_parameter_takes_each_part_of_its_range_once() -> None:
    model = PAPER.with_values({"send_us": 351, "record_overhead_bytes": 61, "flush_latency_us": 11_000})
    names = ["send_us", "flush_latency_us", "record_overhead_bytes"]
    base, samples = sensitivity.sensitivity(judge, model, names, seed=1)
    assert base == judgements(model)
    assert len(samples) == sensitivity.SAMPLES
    places = sorted(
        (1 + math.log(sample.factors["send_us"], 1 + sensitivity.SPREAD)) / 2 * sensitivity.SAMPLES
        for sample in samples
    )
    assert [math.floor(place) for place in places] == list(range(sensitivity.SAMPLES))
    assert max(sample.factors["flush_latency_us"] for sample in samples) == 12_000 / 11_000, "its bound"
    assert all((61 * sample.factors["record_overhead_bytes"]) % 1 < 1e-9 for sample in samples), "a whole number"
    assert samples == sensitivity.sensitivity(judge, model, names, seed=1)[1]
    assert samples[0].judgements == judgements(model.with_values({"send_us": 351 * samples[0].factors["send_us"]}))


def test_a_claim_that_moves_tells_how_far_what_it_follows_and_how_often_its_verdict_differs() -> None:
    base, samples = sensitivity.sensitivity(judge, PAPER, ["hold_us", "send_us"], seed=1)
    [[statement, number, between, follows, differs]] = sensitivity.ranges(base, samples)
    assert (statement, number, follows) == (FAST.statement, "2,849 messages/s, holds", "send_us (-1.00)")
    assert between.startswith("2,4") and between.endswith(" messages/s (×÷1.17)")
    assert differs == f"{sum(351 * sample.factors['send_us'] >= 400 for sample in samples)} of 24"


def test_the_table_has_every_claim_of_every_sample() -> None:
    base, samples = sensitivity.sensitivity(judge, PAPER, ["send_us"], seed=1)
    rows = sensitivity.rows(base, samples)
    assert len(rows) == 3 * (1 + sensitivity.SAMPLES)
    assert {len(row) for row in rows} == {len(sensitivity.COLUMNS) + 1}
    assert rows[0] == ["simulated", "0", FAST.key, "2849", "messages/s", "holds", "1"]
    assert rows[5][:6] == ["simulated", "1", ABSENT.key, "", ABSENT.unit, "not measured"]


def test_a_step_is_a_run_of_its_own_in_which_unsettled_cells_count() -> None:
    cell = {"server_version": VERSION, "initiators": 3, "payload_bytes": 100}
    rows = [
        (1, 50, 1, "unsettled"),
        (1, 50, 150, "valid"),
        (1, 40, 1, "valid"),
        (1, 40, 150, "behind"),
        (2, 50, 1, "valid"),
    ]
    cells = pd.DataFrame(
        [{**cell, "block": block, "threads": t, "dialog_ratio": r, "state": state} for block, t, r, state in rows]
    )
    gain = pd.DataFrame([{**cell, "block": 1, "threads": t, "dialog_ratio": 150, "valid": False} for t in (40, 50)])
    step = sensitivity.of_step(Tables(cells=cells, gain=gain), 1)
    assert list(step.cells.state) == ["valid", "valid", "valid", "behind"]
    assert list(step.gain.valid) == [False, True]
    other = sensitivity.of_step(Tables(cells=cells, gain=gain), 2)
    assert list(other.cells.block) == [1] and other.gain.empty


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.usefixtures("warm_spark")
def test_cells_at_other_costs_are_judged_like_any_run() -> None:
    cells = (Cell(VERSION, 3, 150, 2, 100), Cell(VERSION, 1, 150, 1, 100))
    slower = PAPER.with_values({"round_trip_us": 1000})
    measured: list[int] = []
    with Bench(PAPER, seed=1) as bench:
        found = sensitivity.judged(bench, [PAPER, slower], cells, on_measured=measured.append)
    assert measured == [1, 2]
    base, slow = ({one.claim.key: one for one in judged} for judged in found)
    assert base.keys() == {claim.key for claim in CLAIMS} - {"matrix_complete"}, "26 cells are chosen, not missing"
    assert base["peak_3_initiators"].verdict == Verdict.NOT_MEASURED
    alike = [one["initiators_alike"].measured for one in (base, slow)]
    assert alike[0] is not None and alike[1] is not None and alike[0].value != alike[1].value


def test_the_command_shows_the_ranges_and_writes_every_number_of_every_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(bench: object, models: Sequence[Parameters], on_measured: Callable[[int], None]) -> object:
        for measured_count in range(1, len(models) + 1):
            on_measured(measured_count)
        return judge(models)

    monkeypatch.setattr(calibration, "Bench", lambda model, seed: nullcontext())
    monkeypatch.setattr(sensitivity, "judged", judged)
    done = harness(tmp_path, "calibrate", "--sensitivity", "--parameter", "send_us", "--csv", "numbers.csv")
    assert done.code == 0, done
    assert re.search(r"\nsample 1 of 25: the parameters as they are completed, [\d min]+ s left\n", done.out)
    assert "all samples are measured and are now reduced" in done.out
    assert FAST.statement in done.out and "send_us (-1.00)" in done.out
    head, *numbers = (tmp_path / "numbers.csv").read_text().splitlines()
    assert head == ",".join((*sensitivity.COLUMNS, "send_us")) and len(numbers) == 25 * 3
