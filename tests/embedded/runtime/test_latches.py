"""Page latches that are waited for: first come first served, one holder, counted, visible while they are waited for."""

import pytest

from harness.embedded.runtime.latches import PageLatches
from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import MILLISECOND, Task
from harness.embedded.runtime.virtual import VirtualClock, VirtualDriver
from harness.embedded.runtime.waits import WaitStatistics

HOLD_NS = 5 * MILLISECOND
PAGE, OTHER = Page(7, 1, 16), Page(7, 1, 17)


class World:
    def __init__(self) -> None:
        self.driver = VirtualDriver(VirtualClock())
        self.scheduler = self.driver.scheduler()
        self.waits = WaitStatistics()
        self.latches = PageLatches(self.scheduler, self.waits, hold_ns=HOLD_NS)
        self.done: list[tuple[str, int]] = []

    def change(self, name: str, page: Page = PAGE) -> Task:
        def changing():
            yield from self.latches.latch(page)
            self.done.append((name, self.driver.clock.now_ns()))

        return self.scheduler.spawn(changing(), name)


@pytest.fixture
def world() -> World:
    return World()


def test_changes_of_one_page_happen_one_after_another_in_the_order_of_asking(world):
    for name in "abc":
        world.change(name)
    world.driver.run_for(1)
    assert world.done == [("a", HOLD_NS), ("b", 2 * HOLD_NS), ("c", 3 * HOLD_NS)]
    total = world.waits.totals["PAGELATCH_EX"]
    assert (total.waiting_tasks_count, total.wait_ns, total.max_wait_ns) == (2, 3 * HOLD_NS, 2 * HOLD_NS)


def test_changes_of_different_pages_do_not_wait_for_each_other(world):
    world.change("a")
    world.change("b", OTHER)
    world.driver.run_for(1)
    assert world.done == [("a", HOLD_NS), ("b", HOLD_NS)]
    assert world.waits.totals == {}


def test_who_waits_is_seen_with_the_page_as_resource(world):
    world.change("a")
    waiting = world.change("b")
    world.driver.settle()
    assert {task: (wait.wait_type, wait.resource_description) for task, wait in world.waits.current.items()} == {
        waiting: ("PAGELATCH_EX", "7:1:16")
    }
    world.driver.run_for(1)
    assert world.waits.current == {}


@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_task_that_is_cancelled_leaves_the_latch_to_the_next(world, victim):
    tasks = [world.change(name) for name in "abc"]
    world.driver.settle()
    world.scheduler.cancel(tasks[victim])
    world.driver.run_for(1)
    assert [name for name, _ in world.done] == [name for name in "abc" if name != "abc"[victim]]
    world.change("d")
    world.driver.run_for(1)
    assert world.done[-1][0] == "d"
    assert world.waits.current == {}


def test_a_task_cancelled_between_the_grant_and_its_turn_hands_the_latch_on(world):
    first, second = world.change("a"), world.change("b")
    world.change("c")
    world.driver.settle()
    world.scheduler.cancel(first)  # grants it to b, which is ready and has not run
    world.scheduler.cancel(second)
    world.driver.run_for(1)
    assert [name for name, _ in world.done] == ["c"]
