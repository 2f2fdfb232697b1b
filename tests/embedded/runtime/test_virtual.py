"""The driver of several schedulers in one virtual time."""

from harness.embedded.runtime.tasks import Delay, Signal, Waiting
from harness.embedded.runtime.virtual import VirtualClock, VirtualDriver


def test_schedulers_run_in_order_at_one_moment_until_all_are_idle() -> None:
    driver = VirtualDriver(VirtualClock())
    first, second, third = (driver.scheduler() for _ in range(3))
    backwards, forwards = Signal(), Signal()
    trace: list[str] = []

    def waits(signal: Signal, name: str) -> Waiting[None]:
        yield signal.wait()
        trace.append(name)

    def notifies() -> Waiting[None]:
        yield Delay(5)
        backwards.notify_all()
        forwards.notify_all()
        trace.append("second")
        yield Delay(0)
        trace.append("second again")

    first.spawn(waits(backwards, "first"), "first")
    third.spawn(waits(forwards, "third"), "third")
    second.spawn(notifies(), "second")
    driver.run_until(lambda: len(trace) == 4)
    assert trace == ["second", "first", "third", "second again"]
    assert driver.clock.now_ns == 5


def test_the_clock_skips_a_timer_that_another_scheduler_has_cancelled() -> None:
    driver = VirtualDriver(VirtualClock())
    first, second = driver.scheduler(), driver.scheduler()
    timer = first.call_at(10, lambda: None)
    second.call_at(5, timer.cancel)
    first.call_at(20, lambda: None)
    moments: list[int] = []
    assert not driver.run_until(lambda: bool(moments.append(driver.clock.now_ns)))
    assert set(moments) == {0, 5, 20}


def test_a_forgotten_scheduler_never_runs_even_if_its_tasks_are_woken() -> None:
    driver = VirtualDriver(VirtualClock())
    gone, left = driver.scheduler(), driver.scheduler()
    signal = Signal()
    ran: list[str] = []

    def waits(signal: Signal) -> Waiting[None]:
        yield signal.wait()
        ran.append("woken")

    def sleeps() -> Waiting[None]:
        yield Delay(5)
        ran.append("slept")

    def calls() -> Waiting[None]:
        yield Delay(1)
        driver.forget(gone)
        signal.notify_one()
        gone.call_at(7, lambda: ran.append("called"))
        yield Delay(10)
        ran.append("left")

    gone.spawn(waits(signal), "waits")
    gone.spawn(sleeps(), "sleeps")
    left.spawn(calls(), "calls")
    assert not driver.run_until(lambda: False)
    assert ran == ["left"]
    assert driver.clock.now_ns == 11


def test_a_task_woken_from_outside_runs_with_the_next_run() -> None:
    driver = VirtualDriver(VirtualClock())
    scheduler = driver.scheduler()
    ended: list[int] = []

    def ends() -> Waiting[None]:
        ended.append(driver.clock.now_ns)
        return
        yield Delay(0)

    driver.run_for(1.0)
    scheduler.spawn(ends(), "woken")
    driver.settle()
    assert ended == [1_000_000_000]


def test_a_task_that_a_condition_wakes_still_runs() -> None:
    driver = VirtualDriver(VirtualClock())
    scheduler = driver.scheduler()
    ran: list[int] = []
    asked: list[int] = []

    def condition() -> bool:
        if not asked:
            scheduler.call_at(7, lambda: ran.append(driver.clock.now_ns))
        asked.append(driver.clock.now_ns)
        return bool(ran)

    assert driver.run_until(condition)
    assert ran == [7]
