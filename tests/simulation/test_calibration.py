"""Fit and move parameters with a fake bench whose numbers follow from formulas; failures of the real bench."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from harness import cli
from harness.definitions.matrix import Cell
from harness.definitions.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO
from harness.simulation import calibration, parameters
from harness.simulation.calibration import CellFigures, FiguresByCell, ReferenceNumber, ReferenceNumbers, cell_of, rate
from harness.simulation.parameters import HardwareError, Parameters
from tests.processes import children_of, is_alive
from tests.waiting import wait_until

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]
BUSY, IDLE, BASE = (
    cell_of(3, 50, TRICK_DIALOG_RATIO),
    cell_of(3, 1, TRICK_DIALOG_RATIO),
    cell_of(3, 50, BASE_DIALOG_RATIO),
)


def hardware(**free: tuple[float, float, float]) -> Parameters:
    """The paper's, with these free instead of its own: value, low, high."""
    paper = parameters.read("paper")
    declared = {
        name: one.model_copy(
            update={"free": name in free} | dict(zip(("value", "low", "high"), free.get(name, ()), strict=False))
        )
        for name, one in paper.declared.items()
    }
    return paper.model_copy(update={"declared": declared}).with_values({})


def measure(charged: Parameters, wanted: Iterable[Cell]) -> FiguresByCell:
    """Compute rates of closed loops from SEND and flush, limited by the latch of a page."""
    value = charged.value
    found = {}
    for cell in wanted:
        call_us = value("send_us") + value("flush_latency_us") + 3 * value("record_overhead_bytes")
        per_s = cell.initiators * cell.threads * 1e6 / call_us
        if cell.dialog_ratio == BASE_DIALOG_RATIO:
            per_s = min(per_s, cell.initiators * 1e5 / (value("hold_us") + value("hand_over_us")))
        found[cell] = CellFigures(per_s, per_s * value("send_us") / 1e6, per_s * value("received_message_us") / 1e6)
    return found


NUMBERS = (
    rate("busy", None, BUSY),
    ReferenceNumber("processors", None, "%", (BUSY,), lambda one: one.initiator_percent),
    ReferenceNumber(
        "gain",
        None,
        "%",
        (BUSY, BASE),
        lambda trick, base: 100 * (trick.processed_per_s / base.processed_per_s - 1),
        True,
    ),
)


def known_of(truth: Parameters, *numbers: ReferenceNumber) -> ReferenceNumbers:
    values = calibration.numbers_at(measure, truth, numbers)
    return ReferenceNumbers(
        "truth",
        tuple(
            ReferenceNumber(one.name, value, one.unit, one.cells, one.of, one.is_gain)
            for one, value in zip(numbers, values, strict=True)
        ),
        (rate("idle", None, IDLE),),
    )


def test_a_fit_finds_the_values_that_gave_the_numbers() -> None:
    start = hardware(send_us=(300, 100, 700), flush_latency_us=(3000, 500, 12_000), hand_over_us=(100, 5, 250))
    truth = start.with_values({"send_us": 512, "flush_latency_us": 7345, "hand_over_us": 61})
    tried: list[int] = []
    found = calibration.fit(
        measure, start, known_of(truth, *NUMBERS), on_evaluation=lambda number, charged: tried.append(number)
    )
    assert {name: found.value(name) for name in start.free} == pytest.approx(
        {name: truth.value(name) for name in start.free}, rel=0.01
    )
    assert found.with_values({name: start.value(name) for name in start.free}) == start, "all else is as it was"
    assert tried == list(range(1, len(tried) + 1))
    assert len(tried) <= calibration.evaluations_max(start)


def test_a_fit_keeps_to_the_bounds_and_a_count_stays_whole() -> None:
    start = hardware(send_us=(300, 280, 320), record_overhead_bytes=(100, 20, 400))
    truth = hardware().with_values({"send_us": 600, "record_overhead_bytes": 333})
    tried: list[Parameters] = []
    found = calibration.fit(
        measure, start, known_of(truth, *NUMBERS[:2]), on_evaluation=lambda number, charged: tried.append(charged)
    )
    assert found.value("send_us") == 320
    assert all(280 <= one.value("send_us") <= 320 for one in tried)
    assert all(one.value("record_overhead_bytes").is_integer() for one in tried)


def test_a_number_that_the_model_puts_at_zero_is_one_line() -> None:
    start = hardware(send_us=(300, 100, 700))
    nothing = ReferenceNumbers("truth", (ReferenceNumber("processors", 50.0, "%", (BUSY,), lambda one: 0.0),), ())
    with pytest.raises(HardwareError, match="processors: the model gives 0, which cannot be fitted"):
        calibration.fit(measure, start, nothing, on_evaluation=lambda number, charged: None)


@pytest.mark.parametrize(
    "name, line",
    [
        ("count", "hardware paper: count makes no difference to a cell: choose from round_trip_us, send_us, "),
        ("launch_us", "hardware paper: launch_us makes no difference to a cell"),
        ("think_time_us", "hardware paper: think_time_us is 0, which cannot be scaled"),
        ("sendus", "hardware paper: no parameter 'sendus'; nearest: send_us"),
    ],
)
def test_a_parameter_that_makes_no_difference_is_refused(name: str, line: str) -> None:
    with pytest.raises(HardwareError) as caught:
        calibration.require_charged(parameters.read("paper"), ["send_us", name])
    assert str(caught.value).startswith(line)


def test_cells_are_charged_for_all_free_parameters_of_the_package() -> None:
    for name in parameters.names():
        model = parameters.read(name)
        calibration.require_charged(model, model.free)


PLANTED = """
import os, signal, sys, time
from harness.simulation import calibration, parameters
from harness.run.cell_failures import CellFailed

class Pretence:
    def __init__(self, parameters, version, ratio, *, seed): ...

def measure(world, parameters, visit, kept, folder):
    cell = visit.cell
    if sys.argv[1] == "cell" and cell.dialog_ratio == 150:
        raise CellFailed("no message was processed\\nin its window")
    if sys.argv[1] == "killed" and cell.dialog_ratio == 1:
        os.kill(os.getpid(), 9)
    if sys.argv[1] == "stays":
        (folder / str(cell.dialog_ratio)).touch()
        time.sleep(600)
    return calibration.CellFigures(1.0, float(cell.dialog_ratio), 3.0)

calibration.WarmedWorld, calibration._measure = Pretence, measure

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever a background shell left us
    model = parameters.read("paper")
    cells = [calibration.cell_of(1, 1, ratio) for ratio in (150, 1)]
    try:
        with calibration.Bench(model, seed=1) as opened:
            print(opened.folder, flush=True)
            print([opened.measure(model, cells)[cell].initiator_percent for cell in cells])
    except calibration.BenchFailed as failure:
        print(failure)
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.fixture
def planted(tmp_path: Path) -> list[str]:
    script = tmp_path / "planted.py"
    script.write_text(PLANTED, encoding="utf-8")
    return [sys.executable, str(script)]


@pytest.mark.parametrize(
    "fault, line",
    [
        ("none", "[150.0, 1.0]"),
        ("cell", "i1-t1-r150-p100-v2008: no message was processed in its window"),
        ("killed", "i1-t1-r1-p100-v2008: its process was killed by SIGKILL"),
    ],
)
def test_a_bench_that_cannot_measure_says_what_failed(fault: str, line: str, planted: list[str]) -> None:
    done = subprocess.run([*planted, fault], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    folder, said = done.stdout.splitlines()
    assert (said, done.stderr) == (line, "")
    assert not Path(folder).exists()


def test_ctrl_c_ends_a_bench_and_its_forks_silently(planted: list[str]) -> None:
    process = subprocess.Popen(
        [*planted, "stays"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        wait_until(lambda: len(list(folder.iterdir())) == 2)
        children = children_of(process.pid)
        assert len(children) == 2
        os.killpg(process.pid, signal.SIGINT)
        said, errors = process.communicate(timeout=120)
        assert (said.strip(), errors) == ("interrupted", "")
        psutil.wait_procs(children, timeout=120)
        assert not any(map(is_alive, children))
        assert not folder.exists()
    finally:
        process.kill()
        process.wait()


PAPER = (Path(parameters.__file__).parent / "hardware" / "paper.toml").read_text(encoding="utf-8")


@pytest.fixture
def unbuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to be in, and no bench."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration, "Bench", None)
    return tmp_path


@pytest.mark.parametrize(
    "arguments, change, line",
    [
        ("--parameter send_us", None, "--parameter needs --sensitivity"),
        ("--sensitivity --write x.toml", None, "--write and --sensitivity exclude each other"),
        ("--sensitivity --like .", None, "--like and --sensitivity exclude each other"),
        ("--sensitivity --parameter sendus", None, "hardware mine: no parameter 'sendus'; nearest: send_us"),
        ("--sensitivity --parameter count", None, "hardware mine: count makes no difference to a cell"),
        ("--write nowhere/x.toml", None, "nowhere/x.toml: folder "),
        ("--csv nowhere/x.csv", None, "nowhere/x.csv: folder "),
        ("", (", free = true", ""), "hardware mine: no parameter is `free = true`"),
        ("", ("high = 64,", "high = 64, free = true,"), "hardware mine: count makes no difference to a cell"),
        (
            "--write x.toml",
            (r"send_us = \{ (value = [\d.]+), (low = 100),", r"send_us = { \2, \1,"),
            "cannot write send_us to the file: begin its line with `send_us = { value = ...`",
        ),
    ],
)
def test_a_fit_that_cannot_succeed_is_refused_before_worlds_are_built(
    arguments: str, change: tuple[str, str] | None, line: str, unbuilt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("mine.toml").write_text(re.sub(*change, PAPER) if change else PAPER, encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        cli.main(["calibrate", "--hardware", "mine.toml", *arguments.split()])
    assert capsys.readouterr().err.startswith(f"harness: {line}")
    assert end.value.code == 2
    assert list(unbuilt.iterdir()) == [unbuilt / "mine.toml"]


def test_fitted_values_are_printed_and_written_to_a_copy_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Pretence:
        def __init__(self, parameters: Parameters, *, seed: int) -> None:
            self.measure = measure

        def __enter__(self) -> Pretence:
            return self

        def __exit__(self, *_: object) -> None: ...

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(calibration, "Bench", Pretence)
    with pytest.raises(SystemExit) as end:
        cli.main(["calibrate", "--write", "x.toml", "--csv", "x.csv"])
    said = capsys.readouterr().out
    assert end.value.code == 0
    written = parameters.read("x.toml")
    assert written.free == parameters.read("paper").free
    values = ", ".join(f"{name} {written.value(name):g}" for name in written.free)
    assert re.search(r"\nevaluation 2 of 72: \w+ [\d.]+, .* completed, [\d min]+ s left\n", said)
    assert f"\nfitted: {values}\n" in said
    assert written.with_values({name: parameters.read("paper").value(name) for name in written.free}).log == (
        parameters.read("paper").log
    )
    assert Path("x.csv").read_text(encoding="utf-8").startswith("number,part,the paper,the model,unit\n")
