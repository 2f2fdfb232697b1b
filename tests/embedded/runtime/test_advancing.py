"""A clock that a test moves forward: deadlines in order, each after what the one before began."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from harness.embedded.runtime import realtime
from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock
from harness.embedded.runtime.tasks import SECOND, Delay, Waiting

HOUR_NS = 3600 * SECOND


def run(work: Callable[[RealTimeDriver], Awaitable[None]]) -> None:
    async def in_loop() -> None:
        def fail(task: object, error: BaseException) -> None:
            raise error

        await work(RealTimeDriver(SystemClock(), fail, asyncio.get_running_loop()))

    asyncio.run(in_loop())


def test_what_one_deadline_sets_comes_before_a_later_deadline() -> None:
    events: list[tuple[str, int]] = []

    async def work(driver: RealTimeDriver) -> None:
        scheduler, begin_ns = driver.scheduler, driver.scheduler.clock.now_ns

        def note(name: str) -> None:
            events.append((name, (scheduler.clock.now_ns - begin_ns) // SECOND))

        def first() -> Waiting[None]:
            yield Delay(10 * SECOND)
            note("first")
            yield Delay(10 * SECOND)
            note("second")

        scheduler.spawn(first(), "first")
        scheduler.call_at(begin_ns + 15 * SECOND, lambda: note("between"))
        scheduler.call_at(begin_ns + 2 * HOUR_NS, lambda: note("never"))
        utc_ns = scheduler.clock.utc_ns()
        await driver.advance(HOUR_NS, lambda: False)
        assert 3600 <= (scheduler.clock.utc_ns() - utc_ns) / SECOND < 3660

    run(work)
    assert events == [("first", 10), ("between", 15), ("second", 20)]


def test_it_waits_for_what_no_task_does() -> None:
    events: list[str] = []

    async def work(driver: RealTimeDriver) -> None:
        scheduler = driver.scheduler
        now_ns = scheduler.clock.now_ns
        in_flight = asyncio.Event()

        def flush() -> None:
            in_flight.set()
            asyncio.get_running_loop().call_later(0.02, land)

        def land() -> None:
            in_flight.clear()
            events.append("landed")

        scheduler.call_at(now_ns + SECOND, flush)
        scheduler.call_at(now_ns + 2 * SECOND, lambda: events.append("next"))
        await driver.advance(3 * SECOND, in_flight.is_set)

    run(work)
    assert events == ["landed", "next"]


def test_a_timer_set_after_the_jump_is_on_time() -> None:
    async def work(driver: RealTimeDriver) -> None:
        await driver.advance(HOUR_NS, lambda: False)
        fired = asyncio.Event()
        driver.scheduler.call_at(driver.scheduler.clock.now_ns + SECOND // 100, fired.set)
        await asyncio.wait_for(fired.wait(), realtime.LOOK_NS / SECOND / 2)

    run(work)


def test_work_without_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(realtime, "REST_S_MAX", 0.05)

    async def work(driver: RealTimeDriver) -> None:
        with pytest.raises(TimeoutError):
            await driver.advance(SECOND, lambda: True)

    run(work)
