"""All claims on whole result sets: each has a number or says why it has none."""

import dataclasses
import math
from dataclasses import fields

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import claims
from harness.claims.judgement import Judgement, Measurement, amount, evidence
from harness.definitions.matrix import all_cells
from harness.definitions.whitepaper import CLAIMS, Claim
from harness.figures.reduced_run import OPTIONAL_TABLES, read
from tests.claims.tables import Tables, cells
from tests.examples import share
from tests.results_fixture import quick_cells, write_reduced

pytestmark = pytest.mark.drawing


def verdicts(run, *, by_number=False):
    judgements = claims.evaluate(run, lab=run.lab, by_number=by_number)
    return {judged.claim.key: judged.verdict for judged in judgements}


def test_every_claim_has_a_measure_and_every_measure_a_claim():
    keys = [claim.key for claim in CLAIMS]
    assert len(set(keys)) == len(keys) > 20
    assert set(claims.MEASURES) == set(keys)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.key)
def test_the_papers_own_number_lies_within_the_bounds_of_its_claim(claim):
    assert claim.statement and claim.section and claim.wording and claim.unit
    assert claim.holds_from <= claim.holds_to
    assert math.isfinite(claim.holds_from) or math.isfinite(claim.holds_to)
    assert claim.published is None or claim.includes(claim.published)


def test_claims_hold_for_the_papers_shape_and_fail_for_a_flat_one(paper_run, flat_run):
    gained = ("no_gain_up_to_15", "gain_noticeable_from_30", "trick_removes_contention", "contention_above_15")
    waited = ("initiator_top_wait_without_trick", "initiator_top_wait_with_trick", "target_top_wait")
    paper, flat = verdicts(paper_run, by_number=True), verdicts(flat_run, by_number=True)
    assert {paper[key] for key in (*gained, *waited, "contention_on_sysdesend")} == {claims.Verdict.HOLDS}
    assert flat["gain_noticeable_from_30"] == flat["gain_max"] == flat["initiator_top_wait_without_trick"] == "fails"
    assert flat["trick_removes_contention"] == claims.Verdict.NOT_MEASURED
    assert flat["no_gain_up_to_15"] == claims.Verdict.HOLDS


@pytest.fixture(scope="module", params=[1, 3], ids=["one block", "three blocks"])
def judgements(request, tmp_path_factory):
    """The judgements of runs in one block and in several, by claim."""
    folder = tmp_path_factory.mktemp("run")
    run = read(write_reduced(folder, all_cells(), blocks=request.param))
    return {judged.claim.key: judged for judged in claims.evaluate(run, lab="embedded")}


@pytest.mark.parametrize("key", claims.MEASURES)
def test_a_judgement_explains_itself_in_a_line(judgements, key):
    judged = judgements[key]
    assert judged.explanation and "\n" not in judged.explanation and "nan" not in judged.explanation
    assert (judged.measured is None) == (judged.verdict is claims.Verdict.NOT_MEASURED) == (judged.number == "–")
    measured = judged.measured
    if measured and measured.low is not None:
        assert measured.low <= measured.value <= measured.high and measured.blocks >= 3


TABLES = tuple(field.name for field in fields(Tables))


@settings(max_examples=share(40))
@given(
    st.lists(st.sampled_from(all_cells()), min_size=1, max_size=12, unique=True), st.sets(st.integers(0, 11)), st.data()
)
def test_any_part_of_the_matrix_can_be_judged(paper_run, cells, stuck, data):
    """Any completed cells, any tables missing, and any cells that processed nothing."""
    ids = [cell.id for cell in cells]
    absent = data.draw(st.sets(st.sampled_from([name for name in OPTIONAL_TABLES if name in TABLES])))
    parts = {}
    for name in TABLES:
        table = getattr(paper_run, name)
        if "cell_id" in table:
            table = table[table.cell_id.isin(ids)].copy()
        parts[name] = pd.DataFrame() if name in absent else table
    at_nothing = parts["cells"].cell_id.isin([ids[place] for place in stuck if place < len(ids)])
    for column in ("processed_per_s", "initiator_processor_percent", "target_processor_percent", "receives_in_window"):
        parts["cells"].loc[at_nothing, column] = 0
    for name, columns in {
        "waits": ["wait_time_ms", "share_percent"],
        "file_io": ["writes", "bytes_written"],
        "latch_share": ["times_seen"],
    }.items():
        if len(parts[name]):
            parts[name].loc[parts[name].cell_id.isin(parts["cells"].cell_id[at_nothing]), columns] = 0
    judgements = claims.evaluate(Tables(**parts), lab="embedded")
    assert len(judgements) == len(CLAIMS)
    for measured in (judged.measured for judged in judgements if judged.measured):
        ends = (measured.low, measured.high) if measured.low is not None else ()
        assert all(math.isfinite(number) for number in (measured.value, *ends))


def test_a_few_cells_measure_no_peak_and_no_gain(tmp_path):
    few = [cell for cell in all_cells() if cell.threads <= 2]
    found = verdicts(read(write_reduced(tmp_path / "run", few, shape="paper")))
    for key in ("peak_1_initiator", "linear_1_to_3", "gain_max", "no_gain_up_to_15", "gain_noticeable_from_30"):
        assert found[key] == claims.Verdict.NOT_MEASURED
    assert found["matrix_complete"] == claims.Verdict.FAILS


def test_the_quick_cells_have_peaks(tmp_path):
    found = verdicts(read(write_reduced(tmp_path / "run", quick_cells(), shape="paper")))
    assert found["peak_3_initiators"] != claims.Verdict.NOT_MEASURED
    assert found["versions_alike"] == claims.Verdict.NOT_MEASURED


CLAIM = Claim("key", "Something", "Section", "about ten", "%", 10, 9, 11)


@pytest.mark.parametrize(
    "value, low_high, verdict, ending",
    [
        (10, (9.5, 10.5), "holds", "made so; interval over 5 blocks"),
        (10, (9, 11), "holds", "made so; interval over 5 blocks"),
        (10, (8.5, 10.5), "inconclusive", "made so; interval over 5 blocks; holds from 9 to 11 %"),
        (12, (10.5, 13.5), "inconclusive", "made so; interval over 5 blocks; holds from 9 to 11 %"),
        (10, (1, 19), "inconclusive", "made so; interval over 5 blocks; holds from 9 to 11 %"),
        (12, (11.5, 12.5), "fails", "made so; interval over 5 blocks; holds from 9 to 11 %"),
        (8, (7.5, 8.5), "fails", "made so; interval over 5 blocks; holds from 9 to 11 %"),
    ],
)
def test_the_interval_decides_and_a_crossed_bound_is_inconclusive(monkeypatch, value, low_high, verdict, ending):
    measured = Measurement(value, "made so", 5, *low_high)
    monkeypatch.setattr("harness.claims.MEASURES", {"key": lambda _: measured})
    judged = claims.judge(CLAIM, [evidence(Tables())], claims.Provenance.MEASURED)
    assert (judged.verdict, judged.explanation) == (verdict, ending)
    assert " to " in judged.number


@pytest.mark.parametrize(
    "value, blocks, verdict, ending",
    [
        (11, 1, "not known from one run", "made so; one run, no interval; holds from 9 to 11 %"),
        (11.2, 2, "not known from one run", "made so; 2 runs, no interval; holds from 9 to 11 %"),
        (11, 0, "holds", "made so"),
        (11.2, 0, "fails", "made so; holds from 9 to 11 %"),
    ],
)
def test_without_an_interval_only_a_count_decides(monkeypatch, value, blocks, verdict, ending):
    monkeypatch.setattr("harness.claims.MEASURES", {"key": lambda _: Measurement(value, "made so", blocks)})
    judged = claims.judge(CLAIM, [evidence(Tables())], claims.Provenance.MEASURED)
    assert (judged.verdict, judged.explanation) == (verdict, ending)
    assert " to " not in judged.number


# What only whole runs have: `cells` of tests make none of these.
OTHERS = {"receives_in_window": 10, "initiator_processor_percent": 20.0, "target_processor_percent": 20.0}


def test_cells_that_were_repeated_answer_alone_where_they_can():
    peak = cells((1, 50, 150, 100, "2005", 5000.0), **OTHERS)
    often = pd.concat([peak.assign(block=block, processed_per_s=5000.0 + block) for block in (1, 2, 3)])
    once = cells((1, 40, 150, 100, "2005", 9000.0), (3, 50, 150, 100, "2005", 9000.0), **OTHERS)
    found = {
        judged.claim.key: judged
        for judged in claims.evaluate(Tables(cells=pd.concat([often, once], ignore_index=True)), lab="embedded")
    }
    one, three = found["peak_1_initiator"].measured, found["peak_3_initiators"].measured
    assert (round(one.value), one.blocks) == (5002, 3)
    assert one.low < one.value < one.high
    assert (round(three.value), three.blocks, three.low) == (9000, 1, None)


def test_a_peak_that_is_not_valid_in_every_block_does_not_leave_its_place_to_a_lower_one():
    """Of one version three blocks are valid, of the other two."""
    rows = [(1, threads, 150, 100, version, 100.0 * threads) for threads in (30, 50) for version in ("2005", "2008")]
    table = pd.concat([cells(*rows, **OTHERS).assign(block=block) for block in (1, 2, 3)], ignore_index=True)
    table["processed_per_s"] += table.block
    table.loc[(table.threads == 50) & (table.server_version == "2005") & (table.block == 2), "state"] = "unsettled"
    found = {judged.claim.key: judged.measured for judged in claims.evaluate(Tables(cells=table), lab="embedded")}
    peak = found["peak_1_initiator"]
    assert (round(peak.value), peak.blocks) == (5002, 3)
    assert peak.low < peak.value < peak.high


@pytest.mark.parametrize("broken", [None, 2])
def test_an_interval_is_over_blocks_and_not_over_cells(broken):
    """Cells that differ by a factor and repeat exactly have no width; one invalid repeat changes nothing."""
    rows = [
        (1, threads, 1, payload, "2005", 100.0 * threads * 100 / payload)
        for threads in (1, 5)
        for payload in (100, 8192)
    ]
    table = pd.concat([cells(*rows, block=block, **OTHERS) for block in (1, 2, 3, 4)], ignore_index=True)
    if broken is not None:
        table.loc[broken, "state"] = "unsettled"
    found = {judged.claim.key: judged.measured for judged in claims.evaluate(Tables(cells=table), lab="embedded")}
    measured = found["payload_matters"]
    assert measured.blocks == 4
    assert measured.low == pytest.approx(measured.value) == measured.high == pytest.approx(100 / 8192)


@pytest.mark.parametrize(
    "measured, unit, words",
    [
        (Measurement(4812.4, "", 5, 4790.1, 4834.2), "messages/s", "4,810 messages/s (4,790 to 4,830)"),
        (Measurement(4812.4, "", 1), "messages/s", "4,810 messages/s"),
        (Measurement(135.0, "", 3, 135.0, 135.0), "total threads", "135 total threads (135 to 135)"),
        (Measurement(32.15, "", 1), "times", "32×"),
        (Measurement(1.0131, "", 1), "times", "1.0×"),
        (Measurement(2.9962, "", 5, 2.9123, 3.0834), "times", "3.00× (2.91 to 3.08)"),
        (Measurement(9.994, "", 1), "%", "10 %"),
        (Measurement(8.996, "", 1), "%", "8.996 %"),
        (Measurement(99.62, ""), "%", "99.6 %"),
        (Measurement(0.0, "", 1), "%", "0 %"),
        (Measurement(-12.3, "", 5, -30.0, 5.4), "%", "−12 % (−30 to 5)"),
    ],
)
def test_a_number_has_the_digits_that_its_interval_supports_and_its_verdict_needs(measured, unit, words):
    claim = Claim("key", "Something", "Section", "words", unit, None, 9, 4000)
    assert Judgement(claim, claims.Verdict.FAILS, "", claims.Provenance.MEASURED, measured).number == words


def test_the_explanation_says_what_is_missing(monkeypatch):
    def missing(_):
        raise claims.NotMeasured("no such cells")

    monkeypatch.setattr("harness.claims.MEASURES", {"key": missing})
    judged = claims.judge(CLAIM, [evidence(Tables())], claims.Provenance.MEASURED)
    assert (judged.verdict, judged.explanation, judged.number) == (claims.Verdict.NOT_MEASURED, "no such cells", "–")


@pytest.mark.parametrize(
    "low, high, words",
    [(18000, math.inf, "holds from 18,000 %"), (-math.inf, 10, "holds up to 10 %"), (1, 1, "holds at 1 %")],
)
def test_bounds_are_written_in_words(low, high, words):
    assert claims.bounds(Claim("key", "Something", "Section", "words", "%", None, low, high)) == words


@pytest.mark.parametrize(
    "value, unit, words",
    [
        (4812.4, "messages/s", "4,812 messages/s"),
        (1, "messages/s", "1 messages/s"),
        (1, "dialogs", "1 dialog"),
        (1.5, "dialogs", "1.5 dialogs"),
        (3.0221, "times", "3.02×"),
        (-97.04, "points ahead", "−97.0 points ahead"),
        (0, "%", "0 %"),
    ],
)
def test_a_number_has_a_sensible_number_of_digits(value, unit, words):
    assert amount(value, unit) == words


def test_the_table_has_every_claim_and_is_read_back_unchanged(tmp_path, flat_run):
    judgements = claims.evaluate(flat_run, lab="embedded")
    table = claims.as_table(judgements, run_id="run", lab="embedded", load_model="closed loop")
    parquet, csv = claims.write(table, tmp_path)
    assert list(pd.read_parquet(parquet).claim) == [claim.key for claim in CLAIMS]
    again = pd.read_csv(csv)
    assert set(again.verdict) <= {verdict.value for verdict in claims.Verdict}
    assert set(again.provenance) == {"measured", "–"}
    assert set(again[again.provenance == "–"].verdict) == {"not measured"}
    assert again.measured.isna().tolist() == [judged.measured is None for judged in judgements]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["claims.csv", "claims.parquet"]


def test_no_claim_is_judged_by_an_open_loop(flat_run):
    judgements = claims.evaluate(
        flat_run, lab="embedded", load_model="open loop, 500/s per initiator, constant intervals"
    )
    assert {judged.verdict for judged in judgements} == {"not measured"}
    assert judgements[0].explanation == (
        "the paper's clients send in a closed loop, and those of this run in an open loop, 500/s per initiator, constant "
        "intervals"
    )


def test_what_needs_separate_machines_is_not_measured_where_instances_share_one(paper_run):
    alone = {judged.claim.key: judged for judged in claims.evaluate(paper_run, lab="sqlserver")}
    shared = {
        judged.claim.key: judged
        for judged in claims.evaluate(paper_run, lab="sqlserver", shared="the instances share processors and a disk")
    }
    changed = {key for key in alone if alone[key] != shared[key]}
    assert changed == claims.ON_SEPARATE_MACHINES
    assert {shared[key].verdict for key in changed} == {claims.Verdict.NOT_MEASURED}
    assert {shared[key].explanation for key in changed} == {"the instances share processors and a disk"}
    assert {"initiator_processors", "linear_1_to_3", "initiator_is_bottleneck"} <= changed


def test_what_needs_the_papers_schedulers_is_not_measured_on_fewer(paper_run):
    alone = {judged.claim.key: judged for judged in claims.evaluate(paper_run, lab="sqlserver")}
    few = "an initiator has 2 schedulers, and the paper's had 8"
    judged = {one.claim.key: one for one in claims.evaluate(paper_run, lab="sqlserver", few_schedulers=few)}
    changed = {key for key in alone if alone[key] != judged[key]}
    assert changed == claims.ON_MANY_SCHEDULERS
    assert {(judged[key].verdict, judged[key].explanation) for key in changed} == {(claims.Verdict.NOT_MEASURED, few)}


def test_a_slice_of_the_matrix_may_lack_the_cells_that_decide(flat_run):
    whole, sliced = (
        {one.claim.key: one for one in claims.evaluate(flat_run, lab="simulated", by_number=True, is_whole=is_whole)}
        for is_whole in (True, False)
    )
    changed = {key for key in whole if whole[key] != sliced[key]}
    assert changed == {key for key in claims.ABOUT_THE_WHOLE if whole[key].verdict is claims.Verdict.FAILS}
    assert {"peak_1_initiator", "gain_max"} <= changed
    assert {sliced[key].verdict for key in changed} == {claims.Verdict.NOT_MEASURED}
    assert all(sliced[key].explanation.endswith(whole[key].explanation) for key in changed)


def test_techniques_are_judged_without_a_cell_of_the_matrix():
    other = Tables(cells=cells((1, 7, 150, 100, "2022", 100.0)))
    reasons = {one.claim.key: one.explanation for one in claims.evaluate(other, lab="sqlserver")}
    refused = {key for key, reason in reasons.items() if reason == "the run has no cell of the paper's matrix"}
    assert {"gain_max", "peak_1_initiator"} <= refused
    assert refused.isdisjoint({"single_conversation", "warm_up_needed", "techniques_build_up"})


def test_verdicts_are_counted(flat_run):
    judgements = claims.evaluate(flat_run, lab="embedded")
    numbers = [sum(judged.verdict == verdict for judged in judgements) for verdict in claims.Verdict]
    words = claims.counted(judgements).replace(",", "").split()
    assert [int(word) for word in words if word.isdigit()] == [len(CLAIMS), *(number for number in numbers if number)]


def test_only_what_a_model_predicts_is_counted():
    judgements = [
        Judgement(CLAIM, verdict, "", origin)
        for origin in (claims.Provenance.FITTED, claims.Provenance.BY_CONSTRUCTION, claims.Provenance.PREDICTED)
        for verdict in (claims.Verdict.HOLDS, claims.Verdict.HOLDS, claims.Verdict.FAILS)
    ]
    words = "3 claims are predicted: 2 hold, 1 fail. 6 are fitted or by construction, and do not count"
    assert claims.counted(judgements) == words


def test_claims_use_valid_cells_alone_and_see_which_others_were_completed(paper_run):
    behind = paper_run.cells.dialog_ratio == 150
    cells = paper_run.cells.assign(state=behind.map({True: "behind", False: "valid"}))
    found = evidence(dataclasses.replace(paper_run, cells=cells, gain=paper_run.gain.assign(valid=False)))
    kept = set(cells.cell_id[~behind])
    for table in (found.cells, found.seconds, found.waits, found.page_spread, found.latch_share, found.file_io):
        assert set(table.cell_id) <= kept and len(table)
    assert found.gain.empty and len(found.completed) == len(cells)


@pytest.mark.parametrize(
    "claim, lab, hardware, words",
    [
        ("peak_3_initiators", "embedded", "", "measured"),
        ("peak_3_initiators", "simulated", "paper", "fitted"),
        ("peak_3_initiators", "simulated", "this-machine", "predicted"),
        ("peak_1_initiator", "simulated", "this-machine", "fitted"),
        ("versions_alike", "simulated", "this-machine", "by construction"),
        ("peak_1_initiator", "simulated", "paper", "predicted"),
    ],
)
def test_what_a_number_was_fitted_to_depends_on_the_modelled_hardware(claim, lab, hardware, words):
    assert claims.provenance(claim, lab=lab, hardware=hardware) == words
