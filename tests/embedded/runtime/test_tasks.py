"""Tasks, signals, timers and locks in virtual time."""

import pytest

from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.locks import ExclusiveLock
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import MILLISECOND, SECOND, Cancelled, Delay, Signal, TaskState, first_due_ns
from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock, VirtualDriver


@pytest.fixture
def driver():
    return VirtualDriver(VirtualClock())


@pytest.fixture
def scheduler(driver):
    return driver.scheduler()


def test_virtual_time_jumps_to_the_next_timer(driver, scheduler):
    seen = []

    def sleeper(name, seconds):
        yield Delay(seconds * SECOND)
        seen.append((name, driver.clock.now_ns // SECOND))

    for name, seconds in (("c", 30), ("a", 10), ("b", 10)):
        scheduler.spawn(sleeper(name, seconds), name)
    assert not driver.run_until(lambda: False)
    assert seen == [("a", 10), ("b", 10), ("c", 30)]


def test_run_for_ends_on_time_whether_idle_or_busy(driver, scheduler):
    driver.run_for(5)
    assert driver.clock.now_ns == 5 * SECOND
    scheduler.call_at(20 * SECOND, lambda: None)
    driver.run_for(1.5)
    assert driver.clock.now_ns == 6.5 * SECOND


def test_cancelled_timers_are_removed_long_before_they_are_due(driver, scheduler):
    fired = []
    for number in range(10_000):
        timer = scheduler.call_at((10_000 - number) * SECOND, lambda number=number: fired.append(number))
        if number % 1_000:
            timer.cancel()
        assert len(scheduler.timers) < 200
    assert not driver.run_until(lambda: False)
    assert fired == list(range(9_000, -1, -1_000))
    assert driver.clock.now_ns == 10_000 * SECOND


def test_the_run_raises_the_error_of_a_task_that_nobody_joins(driver, scheduler):
    def failing():
        yield Delay(1)
        raise ValueError("lost")

    scheduler.spawn(failing(), "failing")
    with pytest.raises(AssertionError, match=r"failing ended with ValueError"):
        driver.run_for(1)


def test_finish_returns_the_result_or_raises_the_error(driver, scheduler):
    def result():
        yield Delay(1)
        return 7

    def error():
        yield Delay(1)
        raise SqlServerError(208, "x")

    assert driver.finish(scheduler, result()) == 7
    with pytest.raises(SqlServerError):
        driver.finish(scheduler, error())


def test_a_signal_wakes_in_order_and_a_wait_can_time_out(driver, scheduler):
    signal, woken = Signal(), []

    def waiter(name, timeout_ns=None):
        woken.append((name, (yield signal.wait(timeout_ns))))

    scheduler.spawn(waiter("a"), "a")
    scheduler.spawn(waiter("b", 10 * MILLISECOND), "b")
    scheduler.spawn(waiter("c"), "c")
    driver.settle()
    assert signal.notify_one()
    driver.run_for(1)
    assert woken == [("a", True), ("b", False)]
    signal.notify_all()
    driver.settle()
    assert woken[-1] == ("c", True) and not signal.notify_one()


def test_a_cancelled_task_cleans_up_and_loses_its_timer(driver, scheduler):
    cleaned = []

    def task():
        try:
            yield Delay(SECOND)
        except Cancelled:
            cleaned.append(True)
            raise

    running = scheduler.spawn(task(), "task")
    driver.settle()
    assert scheduler.current is None
    scheduler.cancel(running)
    assert cleaned and running.state is TaskState.DONE and first_due_ns(scheduler.timers) is None


def test_the_same_seed_gives_the_same_bytes():
    assert SeededEntropy(5).random_bytes(70) == SeededEntropy(5).random_bytes(70) != SeededEntropy(6).random_bytes(70)


class Owner:
    def __init__(self, identifier):
        self.id, self.locks, self.waiting_for, self.lock_timeout_ns = identifier, [], None, None


def test_a_released_lock_goes_straight_to_the_owner_that_waited_longest(driver, scheduler):
    lock, waits, got = ExclusiveLock(), WaitStatistics(), []

    def acquire(owner):
        yield from lock.acquire(owner, waits)
        got.append(owner.id)

    owners = [Owner(number) for number in range(3)]
    for owner in owners:
        scheduler.spawn(acquire(owner), str(owner.id))
    driver.run_for(1)
    assert got == [0] and lock.owner is owners[0]
    lock.release()
    assert lock.owner is owners[1] and owners[1].locks == [lock]
    assert not lock.try_acquire(Owner(9))
    driver.settle()
    assert got == [0, 1]
    assert waits.totals["LCK_M_X"].wait_ns == SECOND
    waits.clear()
    assert not waits.totals


def test_a_wait_from_before_a_clear_gets_no_signal_wait_time_after_it():
    waits = WaitStatistics()
    waits.begin(None, "WRITELOG", 0)
    waits.end(None, 5)
    waits.clear()
    waits.runnable(None, 5, 3)
    assert {name: total.waiting_tasks_count for name, total in waits.totals.items()} == {"SOS_SCHEDULER_YIELD": 1}


def test_a_request_for_a_lock_that_was_just_handed_over_waits_its_turn(driver, scheduler):
    """The new owner has not run yet, but it no longer waits for the lock that it owns."""
    lock, waits, got = ExclusiveLock(), WaitStatistics(), []

    def acquire(owner):
        yield from lock.acquire(owner, waits)
        got.append(owner.id)

    holder, *others = (Owner(number) for number in range(3))
    assert lock.try_acquire(holder)
    scheduler.spawn(acquire(others[0]), "first")
    driver.settle()

    def hand_over_and_ask():
        lock.release()
        yield from acquire(others[1])

    scheduler.spawn(hand_over_and_ask(), "second")
    driver.settle()
    assert got == [1] and lock.owner is others[0] and others[1].waiting_for is lock
    lock.release()
    driver.settle()
    assert got == [1, 2]


def test_a_cancelled_waiter_leaves_the_line(driver, scheduler):
    lock, waits = ExclusiveLock(), WaitStatistics()
    holder, waiter = Owner(1), Owner(2)
    assert lock.try_acquire(holder)
    task = scheduler.spawn(lock.acquire(waiter, waits), "waiter")
    driver.settle()
    assert waiter.waiting_for is lock
    scheduler.cancel(task)
    lock.release()
    assert lock.owner is None and waiter.waiting_for is None
