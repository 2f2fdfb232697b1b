"""Page latches: first come first served, shared and exclusive, hand-over, counted, visible while they are waited for."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import Delay, Task
from harness.simulation.computer import PageLatches
from harness.simulation.parameters import LatchParameters
from tests.examples import share
from tests.simulation.hardware_fixture import US, Bench

HOLD_US, SHARED_US, HAND_OVER_US = 50, 20, 100
PAGE, OTHER = Page(7, 1, 16), Page(7, 1, 17)


class Pages(Bench):
    def __init__(
        self,
        *,
        cores: int = 64,
        hold_us: int = HOLD_US,
        shared_us: int = 0,
        hand_over_us: int = 0,
        per_waiter_us: int = 0,
    ) -> None:
        super().__init__(cores)
        self.latches = PageLatches(
            self.scheduler,
            self.waits,
            self.cores.use,
            LatchParameters(
                hold_us=hold_us,
                shared_hold_us=shared_us,
                hand_over_us=hand_over_us,
                hand_over_us_per_waiter=per_waiter_us,
            ),
        )

    def change(self, name: str, page: Page = PAGE, *, at_us: int = 0) -> Task:
        def changing():
            yield Delay(at_us * US)
            yield from self.latches.touch(page)

        return self.spawn(changing(), name)

    def counted(self, wait_type: str) -> tuple[int, int]:
        """How often was waited, and how long in us."""
        total = self.waits.totals[wait_type]
        return total.waiting_tasks_count, total.wait_ns // US


def test_changes_of_one_page_happen_in_the_order_of_their_requests():
    pages = Pages()
    for name in "abc":
        pages.change(name)
    pages.run()
    assert pages.done == [("a", HOLD_US), ("b", 2 * HOLD_US), ("c", 3 * HOLD_US)]
    assert pages.counted("PAGELATCH_EX") == (2, 3 * HOLD_US)
    assert pages.waits.totals["PAGELATCH_EX"].max_wait_ns == 2 * HOLD_US * US


def test_changes_of_different_pages_do_not_wait_for_each_other():
    pages = Pages(shared_us=SHARED_US)
    pages.change("a")
    pages.change("b", OTHER)
    pages.run()
    assert pages.done == [("a", SHARED_US + HOLD_US), ("b", SHARED_US + HOLD_US)]
    assert pages.waits.totals == {}


def test_a_latch_that_was_waited_for_costs_its_hand_over_each_time():
    pages = Pages(hand_over_us=HAND_OVER_US)
    for name in "abc":
        pages.change(name)
    pages.run()
    turn_us = HAND_OVER_US + HOLD_US
    assert pages.done == [("a", HOLD_US), ("b", HOLD_US + turn_us), ("c", HOLD_US + 2 * turn_us)]
    assert pages.counted("PAGELATCH_EX") == (2, (HOLD_US + HAND_OVER_US) + (HOLD_US + HAND_OVER_US + turn_us))


def test_look_ups_share_a_latch_and_changes_follow_one_after_another():
    pages = Pages(shared_us=SHARED_US)
    pages.change("a")  # has the page to itself for 70 us
    pages.change("b", at_us=1)
    pages.change("c", at_us=2)
    pages.run()
    looked_up_us = SHARED_US + HOLD_US + SHARED_US
    assert pages.done == [("a", SHARED_US + HOLD_US), ("b", looked_up_us + HOLD_US), ("c", looked_up_us + 2 * HOLD_US)]
    assert pages.counted("PAGELATCH_SH") == (2, 69 + 68)
    # b leaves before c, but in the same moment, and c after b has asked again.
    assert pages.counted("PAGELATCH_EX") == (2, HOLD_US)


def test_a_look_up_does_not_overtake_a_waiting_change():
    pages = Pages(shared_us=SHARED_US)
    pages.change("a")  # has the page to itself until 70
    pages.change("b", at_us=1)  # looks up from 70 to 90
    pages.change("c", at_us=80)  # beside it, until 100; b waits for that
    pages.change("d", at_us=95)  # waits behind b
    pages.run()
    assert pages.done[:2] == [("a", 70), ("b", 100 + HOLD_US)]
    assert [name for name, _ in pages.done] == list("abcd")


def test_a_hand_over_costs_more_for_each_further_waiter():
    pages = Pages(hand_over_us=HAND_OVER_US, per_waiter_us=7)
    for name in "abcd":
        pages.change(name)
    pages.run()
    assert [at_us for _, at_us in pages.done] == [50, 50 + 114 + 50, 214 + 107 + 50, 371 + 100 + 50]


def test_tasks_granted_together_do_not_raise_each_others_hand_over():
    pages = Pages(shared_us=SHARED_US, hand_over_us=HAND_OVER_US, per_waiter_us=7)
    pages.change("a")  # has the page to itself until 70
    for name in "bcd":
        pages.change(name, at_us=1)
    pages.run()
    looked_up_us = 70 + HAND_OVER_US + SHARED_US  # nobody goes on waiting
    # b and c ask first: what d gives up goes to b while c waits, then to c while d waits, then to d.
    b_us = looked_up_us + 107 + HOLD_US
    c_us = b_us + 107 + HOLD_US
    assert pages.done == [("a", 70), ("b", b_us), ("c", c_us), ("d", c_us + 100 + HOLD_US)]


def test_once_a_queue_has_formed_a_page_serves_one_task_each_hold_and_hand_over():
    """The convoy: with closed-loop tasks a page's rate is 1 / (hold + hand-over), whatever it was without a queue."""
    pages = Pages(hand_over_us=HAND_OVER_US)
    touches = []

    def looping():
        while True:
            yield from pages.latches.touch(PAGE)
            touches.append(pages.now_us())
            yield Delay(500 * US)

    for number in range(30):
        pages.scheduler.spawn(looping(), f"loop {number}")
    pages.run(1.0)
    assert len(touches) == pytest.approx(1e6 / (HOLD_US + HAND_OVER_US), rel=0.01)


def test_the_same_tasks_on_separate_pages_do_not_wait():
    pages = Pages(hand_over_us=HAND_OVER_US)
    touches = []

    def looping(page: Page):
        while True:
            yield from pages.latches.touch(page)
            touches.append(page)
            yield Delay(500 * US)

    for number in range(30):
        pages.scheduler.spawn(looping(Page(7, 1, number)), f"loop {number}")
    pages.run(1.0)
    assert len(touches) == pytest.approx(30 * 1e6 / (HOLD_US + 500), rel=0.01)
    assert pages.waits.totals == {}


def test_a_granted_latch_waits_for_a_processor_with_its_owner():
    pages = Pages(cores=1)
    pages.change("a")
    pages.change("b")
    pages.use(1000, "other", at_us=10)
    pages.run()
    # b has the latch at 50, the core at 1,050: signal time of its wait for the latch.
    assert pages.done == [("a", 50), ("other", 1050), ("b", 1100)]
    total = pages.waits.totals["PAGELATCH_EX"]
    assert (total.wait_ns, total.signal_ns) == (1050 * US, 1000 * US)


def test_a_waiting_task_is_shown_with_the_page_as_resource():
    pages = Pages()
    pages.change("a")
    waiting = pages.change("b")
    pages.run(10e-6)
    assert {task: (wait.wait_type, wait.resource_description) for task, wait in pages.waits.current.items()} == {
        waiting: ("PAGELATCH_EX", "7:1:16")
    }
    pages.run()
    assert pages.waits.current == {}


@pytest.mark.parametrize("hand_over_us", [0, HAND_OVER_US])
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_task_that_is_cancelled_leaves_the_latch_to_the_next(victim, hand_over_us):
    pages = Pages(hand_over_us=hand_over_us, shared_us=SHARED_US)
    tasks = [pages.change(name) for name in "abc"]
    pages.run(10e-6)
    pages.scheduler.cancel(tasks[victim])
    pages.run()
    assert [name for name, _ in pages.done] == [name for name in "abc" if name != "abc"[victim]]
    pages.change("d")
    pages.run()
    assert pages.done[-1][0] == "d"
    assert pages.waits.current == {}


@pytest.mark.parametrize("hand_over_us", [0, HAND_OVER_US])
def test_a_task_cancelled_between_the_grant_and_its_turn_hands_the_latch_on(hand_over_us):
    pages = Pages(hand_over_us=hand_over_us)
    first, second = pages.change("a"), pages.change("b")
    pages.change("c")
    pages.run(10e-6)
    pages.scheduler.cancel(first)  # grants it to b, which has not run
    pages.scheduler.cancel(second)
    pages.run()
    assert [name for name, _ in pages.done] == ["c"]


TOUCHES = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 1), st.none() | st.integers(0, 600)), min_size=1, max_size=25
)


@settings(max_examples=share(150))
@given(
    touches=TOUCHES, hand_over_us=st.sampled_from([0, 7]), shared_us=st.sampled_from([0, 5]), cores=st.integers(1, 3)
)
def test_every_latch_is_free_in_the_end_whichever_tasks_are_cancelled(touches, hand_over_us, shared_us, cores):
    pages = Pages(cores=cores, hold_us=11, shared_us=shared_us, hand_over_us=hand_over_us)
    cancelled = set()
    for number, (at_us, page, cancel_at_us) in enumerate(touches):
        task = pages.change(str(number), Page(7, 1, page), at_us=at_us)
        if cancel_at_us is not None:

            def cancel(task: Task = task, number: int = number) -> None:
                if task.state.name != "DONE":
                    cancelled.add(str(number))
                    pages.scheduler.cancel(task)

            pages.scheduler.call_at(cancel_at_us * US, cancel)
    pages.run()
    assert {name for name, _ in pages.done} | cancelled == {str(number) for number in range(len(touches))}
    assert pages.waits.current == {}
    assert pages.latches._held == {}
