"""How claims move with the model's parameters."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pytest

from harness.claims import Judgement, Measurement, Provenance, Verdict
from harness.claims.judgement import Tables
from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import CLAIMS
from harness.simulation import parameters, sensitivity
from harness.simulation.calibration import VERSION, Bench
from harness.simulation.parameters import Parameters

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


def test_each_parameter_is_moved_by_a_fifth_within_its_bounds() -> None:
    model = PAPER.with_values({"send_us": 351, "record_overhead_bytes": 61, "flush_latency_us": 11_000})
    names = ["send_us", "flush_latency_us", "record_overhead_bytes"]
    base, moved = sensitivity.sensitivity(judge, model, names)
    assert base == judgements(model)
    assert [(step.parameter, step.factor, round(step.value, 1)) for step in moved] == [
        *[("send_us", 0.8, 280.8), ("send_us", 1.2, 421.2)],
        *[("flush_latency_us", 0.8, 8800.0), ("flush_latency_us", 1.2, 12_000.0)],
        *[("record_overhead_bytes", 0.8, 49.0), ("record_overhead_bytes", 1.2, 73.0)],
    ]
    assert [step.judgements for step in moved[:2]] == [
        judgements(model.with_values({"send_us": value})) for value in (0.8 * 351, 1.2 * 351)
    ]


def test_a_claim_that_moves_tells_how_far_and_where_its_verdict_turns() -> None:
    base, moved = sensitivity.sensitivity(judge, PAPER, ["hold_us", "send_us"])
    unit = FAST.unit
    assert unit == "messages/s"
    assert sensitivity.ranges(base, moved) == [
        [
            FAST.statement,
            "2,849 messages/s, holds",
            "2,374 messages/s (send_us × 1.2)",
            "3,561 messages/s (send_us × 0.8)",
            "send_us × 1.2",
        ],
    ]


def test_the_table_has_every_claim_of_every_step() -> None:
    rows = sensitivity.rows(*sensitivity.sensitivity(judge, PAPER, ["send_us"]))
    assert len(rows) == 3 * 3
    assert {len(row) for row in rows} == {len(sensitivity.COLUMNS)}
    assert rows[0] == ["simulated", "", "", "", FAST.key, "2849", "messages/s", "holds"]
    assert rows[6] == ["simulated", "send_us", "1.2", "421.2", FAST.key, "2374.17", "messages/s", "fails"]
    assert rows[8][4:] == [ABSENT.key, "", ABSENT.unit, "not measured"]


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
