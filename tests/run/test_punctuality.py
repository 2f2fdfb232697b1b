"""Sends of an open loop that start late or never."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.load_model import LATE_NS, OpenLoop
from harness.load.plan import Share
from harness.run.punctuality import Calls, Punctuality, punctuality

S = 1_000_000_000
LOOP = OpenLoop(100.0, "poisson", 5)
WINDOW = range(10 * S + S // 2, 12 * S)


def calls(initiator: int, delays_ns: list[int], barrier_ns: int = 10 * S) -> Calls:
    """The first sends of the schedule, each delayed."""
    starts = itertools.islice(LOOP.starts_ns(initiator, 1), len(delays_ns))
    intended = barrier_ns + np.array(list(starts), dtype=np.int64)
    started = intended + np.array(delays_ns, dtype=np.int64)
    return Calls(intended, started, started + 1)


def test_every_send_that_is_due_starts() -> None:
    found = punctuality(LOOP, {Share(1): calls(1, [0] * 400)}, {Share(1): 10 * S}, 1, WINDOW)
    assert found == Punctuality(100.0, LOOP.due(1, 1, S // 2, 2 * S), 0, 0)
    assert found.due > 100
    assert found.complaint(found.due, 1.5, 1) == ""


@given(st.lists(st.integers(0, 3 * LATE_NS), max_size=350))
def test_sends_are_late_or_missed_but_not_both(delays_ns: list[int]) -> None:
    own = calls(1, delays_ns)
    found = punctuality(LOOP, {Share(1): own}, {Share(1): 10 * S}, 1, WINDOW)
    inside = [
        delay for delay, at_ns in zip(delays_ns, own.intended, strict=True) if WINDOW.start <= at_ns < WINDOW.stop
    ]
    assert found.due == LOOP.due(1, 1, S // 2, 2 * S)
    assert found.late == sum(delay > LATE_NS for delay in inside)
    assert found.missed == found.due - len(inside)


def test_each_initiator_is_held_against_its_own_schedule_from_its_own_barrier() -> None:
    barriers = {Share(1): 10 * S, Share(2): 10 * S + 3_000_000}
    found = punctuality(
        LOOP,
        {share: calls(share.initiator, [0] * 400, at_ns) for share, at_ns in barriers.items()},
        barriers,
        1,
        WINDOW,
    )
    assert (found.late, found.missed) == (0, 0)


def test_the_workers_of_an_initiator_share_its_schedule() -> None:
    shares = [Share(1, number, 3) for number in (1, 2, 3)]
    parts = [list(itertools.islice(LOOP.starts_ns(1, 1, number=one.number, of=one.of), 100)) for one in shares]
    assert sorted(itertools.chain(*parts)) == list(itertools.islice(LOOP.starts_ns(1, 1), 300))
    barriers = {share: 10 * S + 1_000_000 * share.number for share in shares}
    made = {share: np.array(part, dtype=np.int64) + barriers[share] for share, part in zip(shares, parts, strict=True)}
    found = punctuality(LOOP, {share: Calls(at, at, at) for share, at in made.items()}, barriers, 1, WINDOW)
    assert (found.late, found.missed) == (0, 0)


def test_clients_that_make_up_for_sends_that_were_late_before_the_window_do_not_keep_the_rate() -> None:
    caught_up = Punctuality(500.0, due=2000, late=1900, missed=10)
    assert Punctuality.of(caught_up.columns()) == caught_up
    assert caught_up.complaint(2041, 2.0, 2) == (
        "the clients did not keep to 500/s per initiator, but caught up at 510/s: 1,900 of 2,000 sends started late, "
        "10 never; use more threads or a lower rate"
    )
    assert caught_up.complaint(2040, 2.0, 2) == ""
    in_time = Punctuality(500.0, due=2000, late=40)
    assert in_time.complaint(2041, 2.0, 2) == "", "calls at an end of the window"


def test_a_rate_that_was_not_made_is_named_with_what_was_made() -> None:
    complaint = Punctuality(500.0, due=2000, late=900, missed=400).complaint(1600, 2.0, 2)
    assert complaint == (
        "the clients did not keep to 500/s per initiator, but made 400/s: 900 of 2,000 sends started late, 400 never; "
        "use more threads or a lower rate"
    )
