from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.files.records import State
from harness.load.plan import GeneratorHealth
from harness.observe.machine_use import MachineUse
from harness.run.validity import Evidence, judge

QUIET = MachineUse(load_average_1m=1.0, steal_percent=0.1, others_percent=2.0, processors=2)
HEALTHY = GeneratorHealth(1, 40.0, 2.0, 0.99, 1.0)


# Messages in each part of the window.
EVEN, RISING = np.full(10, 100), np.arange(60, 160, 10)
IN_PIECES = np.array([0, 0, 0, 500, 0, 0, 0, 0, 500, 0])


def judged(**changes: Any) -> tuple[State, str]:
    good: dict[str, Any] = {
        "window_s": 30.0,
        "sent": EVEN,
        "processed": EVEN,
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
        ({"machine": machine(steal_percent=7.4)}, State.DISTURBED, "the hypervisor took 7 % of the processors' time"),
        ({"machine": machine(steal_percent=12.0), "stolen_before_percent": 8.0}, State.VALID, ""),
        (
            {"machine": machine(steal_percent=14.0), "stolen_before_percent": 8.0},
            State.DISTURBED,
            "the hypervisor took 14 % of the processors' time, 8 % before",
        ),
        (
            {"machine": machine(others_percent=31.0)},
            State.DISTURBED,
            "other processes used 31 % of the processors' time",
        ),
        ({"machine": machine(others_percent=55.0), "others_before_percent": 97.0}, State.VALID, ""),
        (
            {"machine": machine(others_percent=31.0), "others_before_percent": 20.0},
            State.DISTURBED,
            "other processes used 31 % of the processors' time, 20 % before the run",
        ),
        ({"shortfall": "the clients did not keep to 5/s"}, State.STARVED, "the clients did not keep to 5/s"),
        ({"clocks_set": ["the target's clock was set"]}, State.DISTURBED, "the target's clock was set"),
        (
            {"growth_bytes": {"target, tempdb": 64 * 2**20, "target, master": 0}},
            State.DISTURBED,
            "database files grew (target, tempdb 64.0 MiB)",
        ),
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
        (
            {"processed": EVEN - 16},
            State.SATURATED,
            "the target processed 84% of what was sent; 0% of the rest waits in its queue, 100% on the way there",
        ),
        (
            {"sent": RISING, "processed": EVEN - 50, "queue_growth": 9_999},
            State.SATURATED,
            "the target processed 48% of what was sent; 100% of the rest waits in its queue, 0% on the way there",
        ),
        ({"sent": EVEN * 3, "processed": RISING}, State.UNSETTLED, "the rate processed went from 27 to 43 messages/s"),
        (
            {"processed": EVEN + 12},
            State.BEHIND,
            "the target processed 1.12 times what was sent: the rest is backlog of the time before",
        ),
        (
            {"sent": EVEN * 0, "processed": EVEN},
            State.BEHIND,
            "the target processed 1,000 messages while nothing was sent: the rest is backlog of the time before",
        ),
        (
            {"sent": RISING, "processed": RISING},
            State.UNSETTLED,
            "the rate processed went from 27 to 43 messages/s; the rate sent went from 27 to 43 messages/s",
        ),
        ({"readers_at_end": 3}, State.UNSETTLED, "queue readers went from 1 to 3 in the window"),
        ({"sent": EVEN * 0, "processed": EVEN * 0}, State.UNSETTLED, "no call returned in the window"),
        (
            {"processed": IN_PIECES // 2},
            State.UNSETTLED,
            "the rate processed is known only within 50%: give a longer --measure",
        ),
    ],
)
def test_each_finding_has_its_state_and_reason(changes: dict[str, Any], state: State, reason: str) -> None:
    assert judged(**changes) == (state, reason)


@pytest.mark.parametrize("processed", [EVEN * 0, EVEN // 2, EVEN * 2, RISING, IN_PIECES])
def test_what_a_batch_processes_after_the_window_decides_nothing(processed: Any) -> None:
    no_readers = {"readers_at_begin": 0, "readers_at_end": 0}
    assert judged(in_batch=True, processed=processed, **no_readers) == (State.VALID, "")
    assert judged(in_batch=True, processed=processed, sent=RISING, **no_readers) == (
        State.UNSETTLED,
        "the rate sent went from 27 to 43 messages/s",
    )


def test_a_few_cold_pages_do_not_mark_a_cell_nor_do_instances_that_do_not_show_their_files() -> None:
    assert judged(pages_read={"target": 3000, "initiator-1": 0}) == (State.VALID, "")
    assert judged(pages_read={}) == (State.VALID, "")


def test_the_cause_comes_before_its_effects() -> None:
    findings: dict[str, Any] = {
        "machine": machine(steal_percent=50.0),
        "health": [GeneratorHealth(1, 97.0, 2.0, 0.99, 1.0)],
        "processed": EVEN + 50,
        "readers_at_end": 3,
    }
    states = []
    for name in list(findings):
        states.append(judged(**findings)[0])
        del findings[name]
    assert states == [State.DISTURBED, State.STARVED, State.BEHIND, State.UNSETTLED]


def test_a_target_that_receives_in_large_pieces_keeps_up_if_it_processes_what_is_sent() -> None:
    assert judged(processed=IN_PIECES) == (State.VALID, "")


@given(st.integers(100, 10**6), st.integers(0, 10**6))
def test_at_even_rates_a_twentieth_more_or_less_than_was_sent_decides(sent: int, processed: int) -> None:
    state, reason = judged(sent=np.full(10, sent), processed=np.full(10, processed))
    # Counts of independent events vary by their root.
    if 10 * abs(processed - sent) <= max(sent / 2, (10 * (sent + processed)) ** 0.5):
        assert state is State.VALID
    elif processed:
        assert state is (State.BEHIND if processed > sent else State.SATURATED)
    else:
        assert state is State.UNSETTLED
    assert bool(reason) == (state is not State.VALID)
