"""The steps of `harness rates`, with a cell that answers at once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.collections import PathCollection

from harness.experiments import rates_run, rates_table
from harness.experiments.matrix_run import Outcome
from harness.experiments.rate_steps import PERCENTS, Step, steps
from harness.failures import UsageFailure
from harness.figures import rate_lines
from harness.load_model import OpenLoop
from harness.matrix import Cell, Visit
from harness.reporting import Notes
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed
from harness.run.phases import Phases
from harness.run.punctuality import IN_TIME, Punctuality
from harness.settings import SettingsError

CELL = Cell.parse("i2-t5-r1-p100-v2008")
CLOSED_LOOP_PER_S = 1000.0


def measured(sent_per_s: float, processed_per_s: float, kept: Punctuality = IN_TIME) -> Measured:
    rates = {"measured_s": 2.0, "sent_per_s": sent_per_s, "processed_per_s": processed_per_s}
    p99_us = 3000.0 if sent_per_s >= 500 else None
    latencies = {"latency_us_p50": 1000.0, "latency_us_p95": 2000.0, "latency_us_p99": p99_us}
    return Measured(sent_per_s, processed_per_s, 2000, 2.0, {**rates, **latencies}, kept)


class FakeRunner:
    """A cell that sends 1,000/s at most, and whatever less it is asked for."""

    def __init__(self, trouble: Callable[[OpenLoop | None], None]) -> None:
        self.asked: list[OpenLoop | None] = []
        self.folders: list[Path] = []
        self._trouble = trouble

    def make_ready(self, cell: Cell, phases: Phases) -> None:
        assert cell == CELL

    def run(  # noqa: PLR0917
        self, visit: Visit, attempt: int, run: int, phases: Phases, open_loop: OpenLoop | None, folder: Path
    ) -> Measured:
        self.asked.append(open_loop)
        self.folders.append(folder)
        self._trouble(open_loop)
        if open_loop is None:
            return measured(CLOSED_LOOP_PER_S, 990.0)
        asked_per_s = open_loop.rate_per_s * visit.cell.initiators
        made_per_s = min(CLOSED_LOOP_PER_S, asked_per_s)
        missed = round(2 * (asked_per_s - made_per_s))
        kept = Punctuality(open_loop.rate_per_s, due=round(2 * asked_per_s), late=missed, missed=missed)
        return measured(made_per_s, made_per_s, kept)

    def tear_down(self) -> None: ...

    def close(self) -> None: ...


def climb(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    trouble: Callable[[OpenLoop | None], None] = lambda open_loop: None,
    **options: Any,
) -> tuple[Outcome, FakeRunner]:
    runner = FakeRunner(trouble)
    monkeypatch.setattr(rates_run, "SimulatedRunner", lambda settings, hardware: runner)
    given = {"lab": "simulated", "results": tmp_path, "seed": "7", **options}
    return rates_run.run(given, Notes(), cell_id=CELL.id, arrivals="poisson"), runner


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Outcome, FakeRunner]]:
    """One block of all steps."""
    with pytest.MonkeyPatch.context() as patch:
        yield climb(tmp_path_factory.mktemp("whole"), patch)


def test_the_rates_are_shares_of_the_closed_loops_rate_of_each_initiator(whole: tuple[Outcome, FakeRunner]) -> None:
    outcome, runner = whole
    assert (outcome.total, outcome.completed) == (12, 12)
    assert runner.asked == [None, *(OpenLoop(5.0 * percent, "poisson", 7) for percent in PERCENTS)]
    assert runner.folders == [outcome.results / "rates" / step.id for step in steps(CELL, 1)]
    manifest = json.loads((outcome.results / "manifest.json").read_text())
    assert manifest["rates"] == {"percents": list(PERCENTS), "arrivals": "poisson"}
    assert manifest["load_model"] == "closed loop, and open loops at 10 to 110 % of its rate, Poisson arrivals"
    assert manifest["settings"]["cells"] == [CELL.id] and manifest["finished_at"]


def test_the_table_has_what_was_asked_and_what_was_made(whole: tuple[Outcome, FakeRunner]) -> None:
    outcome, _ = whole
    table = pd.read_parquet(outcome.results / "reduced" / "rates.parquet").set_index("percent")
    assert list(table.columns) == [name for name in rates_table.SCHEMA.names if name != "percent"]
    closed_loop, last = table.iloc[0], table.loc[110]
    assert (closed_loop.load_model, closed_loop.sent_per_s, closed_loop.processed_per_s) == ("closed loop", 1000, 990)
    assert pd.isna(closed_loop.asked_per_s) and pd.isna(closed_loop.late_calls) and closed_loop.was_made
    assert last.load_model == "open loop, 550/s per initiator, Poisson arrivals"
    assert (last.asked_per_s, last.sent_per_s, last.due_calls, last.missed_calls) == (1100, 1000, 2200, 200)
    assert table.was_made.tolist() == [True] * 11 + [False]


def test_a_percentile_that_too_few_calls_carry_is_left_out(whole: tuple[Outcome, FakeRunner]) -> None:
    outcome, _ = whole
    table = pd.read_parquet(outcome.results / "reduced" / "rates.parquet").set_index("percent")
    assert table.loc[list(PERCENTS)].latency_us_p99.isna().tolist() == [percent < 50 for percent in PERCENTS]
    assert table.latency_us_p95.notna().all()


def test_the_figure_has_a_point_for_each_step_and_names_the_load(whole: tuple[Outcome, FakeRunner]) -> None:
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
    assert "Hollow: the clients did not make the rate" in sheet.subtitle


def test_repeats_are_blocks_of_the_same_rates_and_the_figure_has_their_intervals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome, runner = climb(tmp_path, monkeypatch, repeats="3")
    assert (outcome.total, outcome.completed) == (36, 36)
    assert runner.asked == 3 * [None, *(OpenLoop(5.0 * percent, "poisson", 7) for percent in PERCENTS)]
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

    outcome, runner = climb(tmp_path, monkeypatch, fail)
    assert (outcome.completed, outcome.failed) == (0, 12)
    assert runner.asked == [None, None], "the closed loop, and once more"
    assert "the closed loop has no rate" in outcome.reason
    assert not (outcome.results / "reduced").exists()


def test_an_interrupted_run_has_the_table_of_what_was_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(open_loop: OpenLoop | None) -> None:
        if open_loop is not None and open_loop.rate_per_s > 100:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        climb(tmp_path, monkeypatch, interrupt)
    [results] = tmp_path.iterdir()
    assert pd.read_parquet(results / "reduced" / "rates.parquet").percent.dropna().tolist() == [10, 20]


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"lab": "simulatd"}, CELL.id, "--lab: unknown lab 'simulatd'; nearest: simulated"),
    ({"lab": "embedded", "hardware": "paper"}, CELL.id, "--hardware has no effect on servers"),
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


def test_a_row_of_the_closed_loop_needs_no_schedule() -> None:
    row = rates_table.row(Step(CELL), measured(10.0, 10.0), load_model="closed loop", run_id="a run", lab="embedded")
    assert set(row) == set(rates_table.SCHEMA.names)
    assert set(rate_lines.COLUMNS) <= set(row)
