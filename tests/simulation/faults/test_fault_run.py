"""Many seeds: workers, summary, failing seeds, bad input."""

import io
import os
import select
import signal
import subprocess
import sys

import pytest

from harness.cli import main
from harness.output.reporting import Lines, SafeConsole
from harness.simulation import forks
from harness.simulation.faults import fault_run, fault_scenario
from harness.simulation.faults.fault_scenario import PreparedLab, SeedOutcome
from tests.noting import NotingReporter
from tests.processes import Child

pytestmark = pytest.mark.process

MANY = """
import os, time
from harness.simulation.faults import fault_run

def linger(prepared, seed):
    os.write(1, b"here\\n")
    time.sleep(60)

fault_run.run_seed = linger
fault_run.many(None, range(1, 9), print)
"""


def announced(seeds: int | None, seed: str | None) -> tuple[list[str], fault_run.Summary]:
    output = io.StringIO()
    summary = fault_run.simulate_faults(seeds, seed, Lines(SafeConsole(file=output)), hardware=None)
    return output.getvalue().splitlines(), summary


@pytest.fixture
def ready(prepared: PreparedLab, monkeypatch) -> None:
    """The lab is linked already."""
    monkeypatch.setattr(fault_scenario, "prepare", lambda parameters: prepared)


@pytest.fixture
def unlinked(monkeypatch) -> None:
    """For scenarios that are not carried out."""
    monkeypatch.setattr(fault_scenario, "prepare", lambda parameters: None)


def accuse(monkeypatch, *, after: int) -> None:
    """Instead of carrying a scenario out."""

    def accused(prepared: None, seed: int) -> SeedOutcome:
        return SeedOutcome(seed, ["nothing lost: message 1"] if seed > after else [], ["target: the lab's procedure"])

    monkeypatch.setattr(fault_run, "run_seed", accused)


def test_many_seeds_print_a_line_each_tenth_and_a_summary(ready) -> None:
    lines, summary = announced(6, "100")
    assert "a model" in lines[0]
    assert summary.seeds == 6 and not summary.failed
    assert lines[-1].startswith("6 seeds in ") and "all checks hold" in lines[-1]
    assert lines[-2].startswith("seed 6 of 6: ") and lines[-2].endswith(" completed: 0 failed")


def test_one_seed_is_shown_with_its_timeline(ready) -> None:
    lines, summary = forks.in_fork(lambda: announced(None, "7"))
    assert summary.seeds == 1
    assert "seed 7:" in lines and any("all calls have ended, and all faults" in line for line in lines)
    assert lines[-1] == "seed 7: all checks hold"


def test_a_failing_seed_is_shown_with_its_timeline_and_the_command_that_repeats_it(unlinked, monkeypatch) -> None:
    accuse(monkeypatch, after=100)
    lines, summary = announced(3, "100")
    assert [outcome.seed for outcome in summary.failed] == [101, 102]
    begins = lines.index("seed 101:")
    assert lines[begins + 1 : begins + 3] == ["  target: the lab's procedure", "  violated - nothing lost: message 1"]
    for seed in (101, 102):
        line = f"seed {seed} failed; again: harness simulate --faults --seed {seed} --hardware paper"
        assert lines.index(line) < begins and lines.count(line) == 1
    assert "2 failed" in lines[-1]


def test_one_failing_seed_ends_with_the_command_that_repeats_it(unlinked, monkeypatch) -> None:
    accuse(monkeypatch, after=0)
    lines, _ = announced(None, "7")
    assert "  violated - nothing lost: message 1" in lines
    assert lines[-1] == "seed 7 failed; again: harness simulate --faults --seed 7 --hardware paper"


def test_failed_seeds_are_printed_before_an_interruption(unlinked, monkeypatch) -> None:
    def interrupted(prepared: None, seeds: range, ended) -> None:
        ended(SeedOutcome(100, ["nothing lost: message 1"]))
        raise KeyboardInterrupt

    monkeypatch.setattr(fault_run, "many", interrupted)
    reporter = NotingReporter()
    with pytest.raises(KeyboardInterrupt):
        fault_run.simulate_faults(9, "100", reporter, hardware=None)
    assert any(line.startswith("seed 100 failed; again: ") for line in reporter.notes)


def test_the_command_quotes_a_hardware_file() -> None:
    assert fault_run.command(8, "my servers.toml").endswith(" --seed 8 --hardware 'my servers.toml'")


def test_a_seed_that_raises_or_dies_is_a_failed_seed(monkeypatch) -> None:
    def break_off(prepared: None, seed: int) -> SeedOutcome:
        if seed == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 2:
            raise ValueError("no")
        return SeedOutcome(seed)

    monkeypatch.setattr(fault_run, "run_seed", break_off)
    outcomes: dict[int, SeedOutcome] = {}
    fault_run.many(None, [1, 2, 3], lambda outcome: outcomes.update({outcome.seed: outcome}))
    assert "SIGKILL" in outcomes[1].violations[0] and "no" in outcomes[2].violations[0]
    assert not outcomes[3].violations


def test_all_forks_die_with_their_parent() -> None:
    """The pipe that all of them write to ends when the last one has."""
    with Child([sys.executable, "-c", MANY], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert [parent.stdout.readline() for _ in range(forks.AT_ONCE)] == [b"here\n"] * forks.AT_ONCE
        parent.kill()
        is_over, _, _ = select.select([parent.stdout], [], [], 20)
        assert is_over and not parent.stdout.read()


@pytest.mark.parametrize(
    "options, said",
    [
        (["--seeds", "0"], "'--seeds': 0 is not in the range 1<=x<=1000000"),
        (["--seeds", "many"], "'--seeds': 'many' is not a valid integer"),
        (["--seed", "x"], "--seed: 'x': input should be a valid integer"),
        (["--seed", "-1"], "--seed: '-1': input should be greater than or equal to 0"),
        (["--hardware", "papper"], "nearest: paper"),
        (["--cells", "i1-*"], "--cells does not go with --faults"),
    ],
)
def test_bad_input_is_one_line(options: list[str], said: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--faults", *options])
    printed = capsys.readouterr()
    assert ended.value.code == 2
    assert said in printed.err and len(printed.err.splitlines()) == 1 and not printed.out


def test_a_bad_seed_ends_the_process_with_2() -> None:
    command = [sys.executable, "-m", "harness", "simulate", "--faults", "--seed", "x"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=400)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1 and not result.stdout


@pytest.mark.parametrize(
    "seeds, seed, wanted",
    [(None, None, range(1, 1001)), (10, None, range(1, 11)), (10, "50", range(50, 60)), (None, "50", range(50, 51))],
)
def test_seeds_are_chosen_from_the_first_one_on(
    unlinked, monkeypatch, seeds: int | None, seed: str | None, wanted: range
) -> None:
    ran: list[int] = []

    def run_seed(prepared: None, one: int) -> SeedOutcome:
        ran.append(one)
        return SeedOutcome(one)

    monkeypatch.setattr(fault_run, "run_seed", run_seed)
    monkeypatch.setattr(
        fault_run, "many", lambda prepared, given, ended: [ended(run_seed(prepared, one)) for one in given]
    )
    announced(seeds, seed)
    assert ran == list(wanted)


def test_failed_seeds_end_with_1_and_the_command_that_repeats_the_first(unlinked, monkeypatch, capsys) -> None:
    accuse(monkeypatch, after=0)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "--faults", "--seeds", "2", "--seed", "8", "--hardware", "this-machine"])
    assert ended.value.code == 1
    again = "again: harness simulate --faults --seed 8 --hardware this-machine\n"
    assert capsys.readouterr().err == f"harness: 2 of 2 seeds failed; {again}"
