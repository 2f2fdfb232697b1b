"""Messages that are counted: what was sent and waits in no queue has been processed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.run.counting import SLOT_NS, Depths, course

S = 1_000_000_000
MOMENTS = (0, 1 * S, 3 * S, 4 * S)  # the clients start, the window begins and ends, all is drained


def depths(**readings: list[tuple[int, float]]) -> Depths:
    found = Depths()
    for queue, of_queue in readings.items():
        for at_ns, messages in of_queue:
            found.add(queue, at_ns, messages)
    return found


def in_window(returned_ns: np.ndarray, waiting: Depths) -> int:
    found = course(returned_ns, waiting, MOMENTS)
    at_ns = found["processed_at_ns"]
    return int(found["messages"][(at_ns >= MOMENTS[1]) & (at_ns < MOMENTS[2])].sum())


def each_ms(until_ns: int) -> np.ndarray:
    return np.arange(0, until_ns, S // 1000, dtype=np.int64)


def test_while_no_queue_grows_all_that_is_sent_is_processed() -> None:
    steady = depths(target=[(0, 5), (4 * S, 5)], initiator=[(0, 2), (4 * S, 2)])
    assert in_window(each_ms(3 * S), steady) == 2000


def test_what_the_queues_grow_by_in_the_window_is_not_processed_in_it() -> None:
    waiting = depths(
        target=[(0, 0), (1 * S, 100), (3 * S, 900), (4 * S, 0)],
        initiator=[(1 * S + S // 2, 0), (3 * S, 200), (4 * S, 0)],
    )
    assert in_window(each_ms(3 * S), waiting) == 2000 - 800 - 200


def test_a_backlog_of_the_time_before_is_processed_in_the_window() -> None:
    assert in_window(each_ms(3 * S), depths(target=[(0, 0), (1 * S, 500), (3 * S, 0)])) == 2500


def test_no_message_is_processed_before_it_is_sent() -> None:
    """Metadata counts messages of other types too, so more may wait than were sent."""
    found = course(each_ms(1 * S), depths(target=[(0, 0), (1 * S, 5000), (4 * S, 0)]), MOMENTS)
    assert found["processed_at_ns"].min() >= 1 * S
    assert found["messages"].sum() == 1000


@given(
    returned=st.lists(st.integers(0, 3 * S - 1), max_size=50),
    readings=st.lists(st.tuples(st.integers(0, 4 * S), st.integers(0, 80)), min_size=1, max_size=12),
)
def test_every_message_is_processed_once_after_it_was_sent(
    returned: list[int], readings: list[tuple[int, int]]
) -> None:
    calls = np.array(returned, dtype=np.int64)
    found = course(calls, depths(target=list(readings)), MOMENTS)
    at_ns, messages = found["processed_at_ns"], found["messages"]
    assert messages.sum() == len(returned)
    assert (messages > 0).all() and (np.diff(at_ns) > 0).all()
    for number, slot_ns in zip(np.cumsum(messages), at_ns, strict=True):
        assert number <= (calls < slot_ns + SLOT_NS).sum()


@pytest.mark.parametrize("length_ns", [0, 1, SLOT_NS, SLOT_NS + 1])
def test_a_slot_begins_at_each_moment_of_the_cell(length_ns: int) -> None:
    moments = (0, S, S + length_ns, 2 * S)
    calls = np.array([S - 1, S, S + length_ns], dtype=np.int64)
    found = course(calls, depths(target=[(0, 0)]), moments)
    for begin, end in pairwise(moments):
        inside = (found["processed_at_ns"] >= begin) & (found["processed_at_ns"] < end)
        assert found["messages"][inside].sum() == ((calls >= begin) & (calls < end)).sum()
