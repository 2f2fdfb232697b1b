"""Many seeds: workers, summary, failing seeds, bad input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from harness.cli import main
from harness.failures import UsageFailure
from harness.simulation.faults import run, scenario
from harness.simulation.faults.run import WorkerDied
from harness.simulation.faults.scenario import Outcome, Prepared

HARNESS = [sys.executable, "-m", "harness", "simulate", "--faults"]


def announced(seeds: str | None, seed: str | None) -> tuple[list[str], run.Summary]:
    lines: list[str] = []
    summary = run.simulate_faults(seeds, seed, hardware="paper", announce=lines.append, console_is_terminal=False)
    return lines, summary


def test_many_seeds_come_to_one_line_each_tenth_and_one_at_the_end() -> None:
    lines, summary = announced("6", "100")
    assert "a model" in lines[0]
    assert summary.seeds == 6 and not summary.failed
    assert lines[-1].startswith("6 seeds in ") and "all checks hold" in lines[-1]
    assert "5 of 6 seeds, 0 failed" in lines[-2]


def test_one_seed_is_told_at_length() -> None:
    lines, summary = announced(None, "7")
    assert summary.seeds == 1
    assert "seed 7:" in lines and any("all calls have ended, and all faults" in line for line in lines)
    assert lines[-1] == "seed 7: all checks hold"


def test_a_failing_seed_is_shown_with_its_timeline_and_the_command_that_repeats_it(monkeypatch) -> None:
    honest = scenario.run

    def accusing(prepared: Prepared, plan) -> Outcome:
        outcome = honest(prepared, plan)
        outcome.violations += ["nothing lost: message 1"] if plan.seed > 100 else []
        return outcome

    monkeypatch.setattr(scenario, "run", accusing)
    lines, summary = announced("3", "100")
    assert [outcome.seed for outcome in summary.failed] == [101, 102]
    assert "seed 101:" in lines and "  violated - nothing lost: message 1" in lines
    assert any("target: " in line for line in lines), "its timeline"
    assert "seed 101 failed; again: harness simulate --faults --seed 101" in lines
    assert "other seeds that failed: 102" in lines
    assert "2 failed" in lines[-1]


def test_a_seed_that_breaks_is_a_failed_seed(prepared: Prepared) -> None:
    def break_off(prepared: Prepared, seed: int) -> Outcome:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 2:
            raise ValueError("no")
        return Outcome(seed)

    outcomes: dict[int, Outcome] = {}
    run.many(prepared, [1, 2, 3], lambda outcome: outcomes.update({outcome.seed: outcome}), run=break_off)
    assert "SIGKILL" in outcomes[1].violations[0] and "no" in outcomes[2].violations[0]
    assert not outcomes[3].violations


def test_a_killed_worker_is_told(prepared: Prepared) -> None:
    def kill_the_worker(prepared: Prepared, seed: int) -> Outcome:
        os.kill(os.getppid(), signal.SIGKILL)
        return Outcome(seed)

    with pytest.raises(WorkerDied, match="3 seeds have not run"):
        run.many(prepared, [1, 2, 3], lambda outcome: None, run=kill_the_worker)


def test_workers_die_with_their_parent() -> None:
    parent = subprocess.Popen([*HARNESS, "--seeds", "100000"], stdout=subprocess.DEVNULL)
    children: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 60
        while len(children) < 2 and time.monotonic() < deadline:
            children = psutil.Process(parent.pid).children(recursive=True)
            time.sleep(0.05)
    finally:
        parent.kill()
        parent.wait()
    assert len(children) >= 2
    _, alive = psutil.wait_procs(children, timeout=30)
    assert not alive


@pytest.mark.parametrize(
    "options, code, said",
    [
        (["--seeds", "0"], 2, "--seeds '0' is none; valid: whole numbers from 1 to 1000000"),
        (["--seeds", "many"], 2, "--seeds 'many' is none"),
        (["--seed", "x"], 2, "--seed 'x' is none; valid: whole numbers from 0 to 4294967295"),
        (["--seed", "-1"], 2, "--seed '-1' is none"),
        (["--hardware", "papper"], 2, "nearest: paper"),
        (["--cells", "i1-*"], 2, "--cells does not go with --faults"),
    ],
)
def test_bad_input_is_one_line(options: list[str], code: int, said: str) -> None:
    result = subprocess.run([*HARNESS, *options], capture_output=True, text=True, check=False)
    assert result.returncode == code
    assert said in result.stderr and len(result.stderr.splitlines()) == 1


def test_seeds_are_chosen_from_the_first_one_on() -> None:
    assert run.chosen(None, None) == range(1, 1001)
    assert run.chosen("10", None) == range(1, 11)
    assert run.chosen("10", "50") == range(50, 60)
    assert run.chosen(None, "50") == range(50, 51)
    with pytest.raises(UsageFailure):
        run.chosen("1" * 5000, None)


def test_failed_seeds_end_with_1(monkeypatch, capsys) -> None:
    monkeypatch.setattr(scenario, "run", lambda prepared, one: Outcome(one.seed, ["in order: message 2"]))
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--faults", "--seeds", "2", "--seed", "8"])
    assert ended.value.code == 1
    assert "2 of 2 seeds failed; again: harness simulate --faults --seed 8" in capsys.readouterr().err
