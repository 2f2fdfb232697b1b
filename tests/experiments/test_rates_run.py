"""The steps of `harness rates`, with a cell that answers at once."""

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from harness.definitions.load_model import Arrivals, OpenLoop
from harness.definitions.matrix import Cell
from harness.experiments import rates_run, rates_table, scenario_run, virtual_lab
from harness.experiments.rate_steps import PERCENTS, Step, steps
from harness.failures import UsageFailure
from harness.figures import rate_lines
from harness.files.settings import SettingsError
from harness.output.reporting import Notes
from harness.run import in_process
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed
from harness.run.phases import Phases
from harness.run.run_folder import ResumeRefused
from harness.run.testbed import LoadOf
from harness.run.under_way import Outcome
from tests.experiments.raw import FROM, TO, S, write_calls, write_cell, write_deliveries

CELL = Cell.parse("i2-t5-r1-p100-v2008")
WINDOW_S = (TO - FROM) / S
CALLS = 2000  # in the window of the closed loop
LATENCY_NS = 3_000_000


def loads(repeats: int) -> list[OpenLoop | None]:
    """The loads of a run's steps, in their order."""
    percents = [step.percent for step in steps(CELL, repeats, 7)]
    return [None if percent is None else OpenLoop(5.0 * percent, "poisson", 7) for percent in percents]


class FakeTestbed(in_process.Testbed[Step]):
    """A cell that sends 1,000/s at most, and whatever less it is asked for; ten messages stay in the queue."""

    def __init__(self, trouble: Callable[[OpenLoop | None], None]) -> None:
        self.results = Path()
        self.load_of: LoadOf = lambda step: None
        self.asked: list[OpenLoop | None] = []
        self.folders: list[Path] = []
        self._trouble = trouble

    def make_ready(self, cell: Step, phases: Phases) -> None:
        assert cell.cell == CELL

    def run(self, cell: Step, attempt: int, run: int, phases: Phases) -> Measured:
        visit, folder, open_loop = cell.visit, cell.folder(self.results), self.load_of(cell)
        self.asked.append(open_loop)
        self.folders.append(folder)
        self._trouble(open_loop)
        due = round(open_loop.rate_per_s * visit.cell.initiators * WINDOW_S) if open_loop else 0
        calls = min(CALLS, due) if open_loop else CALLS
        sent_at_ns = [FROM + number * S // 1010 for number in range(calls)]
        write_calls(folder, visit, attempt, 1, sent_at_ns, [LATENCY_NS] * calls)
        write_deliveries(folder, visit, attempt, sent_at_ns[10:], sent_at_ns[10:])
        rate_per_s = open_loop.rate_per_s if open_loop else 0.0
        missed = max(0, due - calls)
        kept = {"due_calls": due, "late_calls": missed, "missed_calls": missed, "rate_per_s": rate_per_s}
        write_cell(folder, visit, attempt, **kept)
        return Measured(calls / WINDOW_S, calls / WINDOW_S, calls, WINDOW_S, {})


def climb(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[OpenLoop | None], None] = lambda open_loop: None,
    *,
    arrivals: Arrivals | None = "poisson",
    resume: Path | None = None,
    **options: Any,
) -> tuple[Outcome, FakeTestbed]:
    bed = FakeTestbed(trouble)

    def testbed(settings: Any, hardware: Any, results: Path, *, workload: Any, load_of: LoadOf) -> FakeTestbed:
        bed.results, bed.load_of = results, load_of
        return bed

    monkeypatch.setattr(virtual_lab, "VirtualTestbed", testbed)
    given = options if resume else {"lab": "simulated", "results": tmp_path, "seed": "7", **options}
    return rates_run.run(given, Notes(), cell_id=None if resume else CELL.id, arrivals=arrivals, resume=resume), bed


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outcome, FakeTestbed]]:
    """One block of all steps."""
    with pytest.MonkeyPatch.context() as patch:
        yield climb(tmp_path_factory.mktemp("whole"), patch)


def test_the_rates_are_shares_of_the_closed_loops_rate_of_each_initiator(whole: tuple[Outcome, FakeTestbed]) -> None:
    outcome, bed = whole
    assert (outcome.total, outcome.completed) == (12, 12)
    to_run = steps(CELL, 1, 7)
    assert sorted(step.percent for step in to_run[1:] if step.percent) == list(PERCENTS)
    assert bed.asked == loads(1)
    assert bed.folders == [outcome.results / "rates" / step.id for step in to_run]
    manifest = json.loads((outcome.results / "manifest.json").read_text())
    assert manifest["rates"] == {"percents": list(PERCENTS), "arrivals": "poisson"}
    assert manifest["load_model"] == "closed loop, and open loops at 10 to 110 % of its rate, Poisson arrivals"
    assert manifest["settings"]["cells"] == [CELL.id] and manifest["finished_at"]


def test_the_table_has_what_was_asked_and_what_was_made(whole: tuple[Outcome, FakeTestbed]) -> None:
    outcome, _ = whole
    table = pd.read_parquet(outcome.results / "reduced" / "rates.parquet").set_index("percent")
    assert list(table.columns) == [name for name in rates_table.SCHEMA.names if name != "percent"]
    closed_loop, last = table.iloc[0], table.loc[110]
    assert (closed_loop.load_model, closed_loop.sent_per_s, closed_loop.processed_per_s) == ("closed loop", 1000, 995)
    assert pd.isna(closed_loop.asked_per_s) and pd.isna(closed_loop.late_calls) and closed_loop.was_made
    assert last.load_model == "open loop, 550/s per initiator, Poisson arrivals"
    assert (last.asked_per_s, last.sent_per_s, last.due_calls, last.missed_calls) == (1100, 1000, 2200, 200)
    assert table.was_made.tolist() == [True] * 11 + [False]


def test_a_percentile_that_too_few_calls_carry_is_left_out(whole: tuple[Outcome, FakeTestbed]) -> None:
    outcome, _ = whole
    table = pd.read_parquet(outcome.results / "reduced" / "rates.parquet").set_index("percent")
    assert table.loc[list(PERCENTS)].latency_us_p99.isna().tolist() == [percent < 50 for percent in PERCENTS]
    assert table.latency_us_p95.notna().all()


def test_the_figure_has_a_point_for_each_step_and_names_the_load(whole: tuple[Outcome, FakeTestbed]) -> None:
    outcome, _ = whole
    svg = (outcome.results / "figures" / "rates.svg").read_text()
    assert "<!-- A model, not SQL Server (simulated lab; it models 2008) · closed loop, and open loops at 10 to" in svg
    sheet = rate_lines.draw(rate_lines.read(outcome.results))
    [ax] = sheet.axes
    assert len(ax.get_legend().get_texts()) == 3
    points = sum(len(each.get_offsets()) for each in ax.collections if isinstance(each, PathCollection))
    assert points == 3 * 12
    assert "One run, no interval." in sheet.subtitle
    means = rate_lines.over_blocks(rate_lines.read(outcome.results))
    assert means.latency_us_p99_low.dtype == float and means.latency_us_p99_low.isna().all()
    assert "3 ms at 50 % of the closed loop's rate, 3 ms at 100 %" in sheet.subtitle
    assert "Hollow: the clients did not keep to the rate" in sheet.subtitle


def test_repeats_are_blocks_of_the_same_rates_and_the_figure_has_their_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, bed = climb(tmp_path, monkeypatch, repeats="3")
    assert (outcome.total, outcome.completed) == (36, 36)
    assert bed.asked == loads(3)
    table = rate_lines.read(outcome.results)
    assert table.groupby("block").percent.count().to_dict() == dict.fromkeys((1, 2, 3), len(PERCENTS))
    factors = table.block.map({1: 0.5, 2: 1.0, 3: 2.0})
    means = rate_lines.over_blocks(table.assign(latency_us_p99=table.latency_us_p99 * factors))
    assert means.percent.isna().tolist() == [True] + len(PERCENTS) * [False], "the closed loop comes first"
    last = means.iloc[-1]
    # t(0.975, 2) = 4.303: three logarithms ln 2 apart have a standard error of ln 2 / √3.
    assert last.latency_us_p99 == pytest.approx(3000) and last.blocks == 3
    assert last.latency_us_p99_high / last.latency_us_p99 == pytest.approx(
        math.exp(4.303 * math.log(2) / math.sqrt(3)), rel=1e-3
    )
    assert last.latency_us_p99_low * last.latency_us_p99_high == pytest.approx(3000**2)
    assert means.latency_us_p99_low.isna().tolist() == [False] + [percent < 50 for percent in PERCENTS]
    assert "Geometric means of 3 runs with 95 % intervals." in rate_lines.draw(table).subtitle


def test_without_a_rate_of_the_closed_loop_no_other_step_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(open_loop: OpenLoop | None) -> None:
        raise CellFailed("10 calls failed")

    outcome, bed = climb(tmp_path, monkeypatch, fail)
    assert (outcome.completed, outcome.failed) == (0, 12)
    assert bed.asked == [None, None], "the closed loop, and once more"
    assert "the closed loop has no rate" in outcome.reason
    assert not (outcome.results / "reduced").exists()


def test_an_interrupted_run_has_the_table_of_what_was_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(open_loop: OpenLoop | None) -> None:
        if open_loop == loads(1)[3]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        climb(tmp_path, monkeypatch, interrupt)
    [results] = tmp_path.iterdir()
    asked_per_s = [2 * load.rate_per_s for load in loads(1)[1:3] if load]
    table = pd.read_parquet(results / "reduced" / "rates.parquet")
    assert table.asked_per_s.dropna().tolist() == sorted(asked_per_s)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"lab": "simulatd"}, CELL.id, "--lab: unknown lab 'simulatd'; nearest: simulated"),
    ({"lab": "simulated"}, "i1-t5", "'i1-t5' matches 16 cells"),
    ({"lab": "simulated"}, "i9-t5", "no cell matches 'i9-t5'"),
]


@pytest.mark.parametrize("options, cell_id, message", BAD)
def test_a_wrong_option_is_one_line(tmp_path: Path, options: dict[str, Any], cell_id: str, message: str) -> None:
    with pytest.raises(UsageFailure) as caught:
        rates_run.run({"results": tmp_path, **options}, Notes(), cell_id=cell_id, arrivals="constant")
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_rate_from_elsewhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_RATE", "5/s")
    with pytest.raises(SettingsError, match="the rates follow from the closed loop's"):
        climb(tmp_path, monkeypatch)


def test_a_resumed_run_makes_the_missing_steps_at_the_rates_of_the_first_and_has_the_table_of_a_whole_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: tuple[Outcome, FakeTestbed]
) -> None:
    def interrupt(open_loop: OpenLoop | None) -> None:
        if open_loop == loads(1)[3]:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as interrupted:
        climb(tmp_path, monkeypatch, interrupt)
    [results] = tmp_path.iterdir()
    assert str(interrupted.value) == f"measured: 3 of 12 steps; go on with: harness rates --resume {results}"
    outcome, bed = climb(tmp_path, monkeypatch, arrivals=None, resume=results)
    assert (outcome.results, outcome.total, outcome.completed) == (results, 12, 12)
    assert bed.asked == loads(1)[3:]
    tables = [pd.read_parquet(each / "reduced" / "rates.parquet") for each in (results, whole[0].results)]
    pd.testing.assert_frame_equal(*(table.drop(columns="run_id") for table in tables))


@pytest.mark.parametrize(
    "options, refusal",
    [
        ({"arrivals": "constant"}, 'rates.arrivals: "poisson" in the run, "constant" now'),
        ({"arrivals": None, "measure": "9s"}, "measure is 5.0 in the run and 9.0 now"),
        ({"arrivals": None, "lab": "embedded"}, "lab is simulated in the run and embedded now"),
    ],
)
def test_a_run_is_not_resumed_under_another_load(
    monkeypatch: pytest.MonkeyPatch, whole: tuple[Outcome, FakeTestbed], options: dict[str, Any], refusal: str
) -> None:
    results = whole[0].results
    with pytest.raises(ResumeRefused, match=f"{results} cannot be resumed.*{refusal}"):
        climb(results.parent, monkeypatch, resume=results, **options)


def test_a_run_is_resumed_by_the_command_that_began_it(whole: tuple[Outcome, FakeTestbed]) -> None:
    results = whole[0].results
    right = f"is no run of harness techniques: go on with harness rates --resume {results}"
    with pytest.raises(ResumeRefused, match=right):
        scenario_run.run({}, Notes(), scenario_file=None, resume=results)
    with pytest.raises(UsageFailure, match=r"name a cell, such as .*, or resume a run with --resume DIR"):
        rates_run.run({"lab": "simulated"}, Notes(), cell_id=None)
