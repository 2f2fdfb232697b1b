from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.files.records import State
from harness.load.plan import GeneratorHealth
from harness.observe.machine_use import MachineUse
from harness.run.validity import Evidence, judge

QUIET = MachineUse(load_average_1m=1.0, steal_percent=0.1, others_percent=2.0, processors=2)
HEALTHY = GeneratorHealth(1, 40.0, 2.0, 0.99, 1.0)


def judged(**changes: Any) -> tuple[State, str]:
    good: dict[str, Any] = {
        "window_s": 30.0,
        "sent_in_window": 1000,
        "processed_in_window": 1000,
        "unsteady": [],
        "readers_at_begin": 1,
        "readers_at_end": 1,
        "health": [HEALTHY],
        "machine": QUIET,
    }
    return judge(Evidence(**(good | changes)))


def machine(**changes: float) -> MachineUse:
    return MachineUse(
        **({"load_average_1m": 1.0, "steal_percent": 0.1, "others_percent": 2.0, "processors": 2} | changes)
    )


def test_a_cell_without_a_finding_is_valid_and_needs_no_reason() -> None:
    assert judged() == (State.VALID, "")
    assert judged(machine=None, health=[]) == (State.VALID, "")


@pytest.mark.parametrize(
    "changes, state, reason",
    [
        (
            {"machine": machine(steal_percent=7.4)},
            State.DISTURBED,
            "the hypervisor took 7 % of the processors' time",
        ),
        (
            {"machine": machine(others_percent=31.0)},
            State.DISTURBED,
            "other processes used 31 % of the processors' time",
        ),
        ({"shortfall": "the clients did not make 5/s"}, State.STARVED, "the clients did not make 5/s"),
        ({"growth_bytes": 64 * 2**20}, State.DISTURBED, "database files grew by 64.0 MiB"),
        (
            {"pages_read": {"target": 51_200, "initiator-1": 3000, "initiator-2": 3001}},
            State.DISTURBED,
            "pages were read from disk (target 51,200, initiator-2 3,001): give more memory (max server memory, or "
            "MSSQL_MEMORY_LIMIT_MB and MSSQL_CONTAINER_MEMORY of containers), or use fewer dialogs",
        ),
        (
            {"health": [HEALTHY, GeneratorHealth(2, 97.0, 2.0, 0.99, 1.0)]},
            State.STARVED,
            "worker 2 used 97 % of a processor: it is the bottleneck",
        ),
        ({"processed_in_window": 840}, State.BEHIND, "the target processed 84% of what was sent"),
        (
            {"processed_in_window": 1120},
            State.BEHIND,
            "the target processed 1.12 times what was sent: the rest is backlog of the time before",
        ),
        (
            {"sent_in_window": 0, "processed_in_window": 7},
            State.BEHIND,
            "the target processed 7 messages while nothing was sent: the rest is backlog of the time before",
        ),
        ({"unsteady": ["a", "b"]}, State.UNSETTLED, "a; b"),
        ({"readers_at_end": 2}, State.UNSETTLED, "queue readers went from 1 to 2 in the window"),
        ({"sent_in_window": 0, "processed_in_window": 0}, State.UNSETTLED, "no call returned in the window"),
    ],
)
def test_each_finding_has_its_state_and_reason(changes: dict[str, Any], state: State, reason: str) -> None:
    assert judged(**changes) == (state, reason)


def test_a_few_cold_pages_do_not_mark_a_cell_nor_do_instances_that_do_not_show_their_files() -> None:
    assert judged(pages_read={"target": 3000, "initiator-1": 0}) == (State.VALID, "")
    assert judged(pages_read={}) == (State.VALID, "")


def test_the_cause_comes_before_its_effects() -> None:
    findings: dict[str, Any] = {
        "machine": machine(steal_percent=50.0),
        "health": [GeneratorHealth(1, 97.0, 2.0, 0.99, 1.0)],
        "processed_in_window": 1,
        "readers_at_end": 2,
    }
    states = []
    for name in list(findings):
        states.append(judged(**findings)[0])
        del findings[name]
    assert states == [State.DISTURBED, State.STARVED, State.BEHIND, State.UNSETTLED]


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_a_target_is_behind_if_it_processed_more_than_a_twentieth_less_or_more(sent: int, processed: int) -> None:
    state, reason = judged(sent_in_window=sent, processed_in_window=processed)
    assert (state is State.BEHIND) == (20 * abs(processed - sent) > sent)
    assert bool(reason) == (state is not State.VALID)
