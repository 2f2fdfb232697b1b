"""Same seed, same trace: in any process, whatever ran before, under any PYTHONHASHSEED."""

import os
import subprocess
import sys

import pytest

from harness.embedded.runtime.virtual import SeededEntropy
from harness.simulation import forks
from harness.simulation.faults import fault_plan, fault_run
from harness.simulation.faults.fault_plan import Dice, Fault, Kind, Plan, PlannedClient, Receiver
from harness.simulation.faults.fault_scenario import PreparedLab
from tests.processes import Child

pytestmark = pytest.mark.process

SEEDS = (3, 17)
TRACES = f"""
from functools import partial
from harness.simulation import forks, parameters
from harness.simulation.faults import fault_run, fault_scenario
prepared = fault_scenario.prepare(parameters.read("paper"))
for seed in {SEEDS}:
    print(forks.in_fork(partial(fault_run.run_seed, prepared, seed)).trace)
"""


def telling_traces(hash_seed: str) -> Child:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    return Child([sys.executable, "-c", TRACES], env=environment, stdout=subprocess.PIPE, text=True)


def test_a_seed_has_one_trace_under_any_hash_seed() -> None:
    with telling_traces("1") as one, telling_traces("2") as other:
        first, second = one.communicate(timeout=400)[0].split(), other.communicate(timeout=400)[0].split()
    assert len(set(first)) == len(SEEDS)
    assert first == second


def test_a_seed_does_not_depend_on_those_before_it(prepared: PreparedLab) -> None:
    def trace(seed: int) -> str:
        return forks.in_fork(lambda: fault_run.run_seed(prepared, seed)).trace

    alone = trace(3)
    trace(17)
    assert trace(3) == alone


def test_equal_plans_with_different_seeds_run_differently(carry_out) -> None:
    """When messages arrive, also where no instance was started anew."""
    one_by_one = Receiver(is_the_labs=False, top=1, hold_s=0.0, readers=1)
    faults = (Fault(Kind.REORDERING, 0.0, 10.0, "initiator-1", 2.0),)

    def arrivals(seed: int) -> list[int]:
        story = carry_out(whole=Plan(seed, (PlannedClient(1, 1, 24, 0.0, 100, False),), one_by_one, faults))
        return [reading.began_ns for reading in story.evidence.readings]

    assert arrivals(1) == arrivals(1) != arrivals(2)


def test_a_plan_follows_from_its_seed() -> None:
    assert fault_plan.make(5) == fault_plan.make(5) != fault_plan.make(6)


def test_dice_keep_to_their_bounds() -> None:
    dice = Dice(SeededEntropy(1))
    assert {dice.integer(1, 3) for _ in range(100)} == {1, 2, 3}
    assert all(2 <= dice.between(2, 3) < 3 for _ in range(100))
    assert 20 < sum(dice.happens(0.3) for _ in range(100)) < 40
