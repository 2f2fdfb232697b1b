"""When a request that takes long gets its next turn, on a loop whose timers the test runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.embedded.runtime import turns as runtime_turns
from harness.embedded.server.turns import OTHERS_SHARE, OTHERS_SHARE_OF_ACTIVATED, TURN_NS, Account, Turns


class TimersOnly:
    """An event loop that keeps its timers."""

    def __init__(self) -> None:
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, callback: Callable[..., None], *arguments: Any) -> None:
        self.timers.append((delay_s, lambda: callback(*arguments)))

    def call_soon(self, callback: Callable[..., None], *arguments: Any) -> None:
        self.call_later(0, callback, *arguments)

    def run_next(self) -> float:
        delay_s, callback = self.timers.pop(0)
        callback()
        return delay_s


@pytest.fixture
def loop() -> TimersOnly:
    return TimersOnly()


@pytest.fixture
def driver() -> SimpleNamespace:
    return SimpleNamespace(arrivals=100)  # its own request among them


@pytest.fixture
def stood(loop: TimersOnly, driver: SimpleNamespace) -> list[str]:
    """The tasks that were woken; one stands in the queue."""
    woken: list[str] = []
    turns = Turns(driver, loop)  # type: ignore[arg-type]
    heavy = Account()
    heavy.is_heavy = True
    wait = turns.run(iter(()), heavy).send(None)  # type: ignore[arg-type]
    turns._owed_ns = 10_000_000
    wait.arm(SimpleNamespace(wake=woken.append), "task")
    return woken


def test_a_request_alone_goes_on_at_once_however_much_came_before(loop, driver, stood):
    assert [loop.run_next(), loop.run_next()] == [0, 0]  # what has arrived is read between the two
    assert stood == ["task"] and not loop.timers


def test_where_something_arrives_for_others_they_get_their_share(loop, driver, stood):
    driver.arrivals += 1
    assert [loop.run_next(), loop.run_next()] == [0, 0]
    assert not stood
    assert loop.run_next() == pytest.approx(0.010)
    assert stood == ["task"]


def test_logins_take_turns_however_many_requests_each_of_them_has(loop, driver):
    turns = Turns(driver, loop)  # type: ignore[arg-type]
    given: list[str] = []
    for login, count in (("hog", 4), ("other", 2), ("third", 1)):
        for number in range(count):
            account = Account(login)
            account.is_heavy = True
            wait = turns.run(iter(()), account).send(None)  # type: ignore[arg-type]
            wait.arm(SimpleNamespace(wake=given.append), f"{login} {number}")
    while loop.timers:
        loop.run_next()
    assert given == ["hog 0", "other 0", "third 0", "hog 1", "other 1", "hog 2", "hog 3"]


def use_processor() -> None:
    until_ns = time.thread_time_ns() + 3 * TURN_NS
    while time.thread_time_ns() < until_ns:
        pass


def work(step: Callable[[], None]) -> Iterator[None]:
    while True:
        step()
        yield


@pytest.mark.parametrize("share", [OTHERS_SHARE, OTHERS_SHARE_OF_ACTIVATED])
def test_who_uses_the_processor_for_long_owes_the_others_their_share(loop, driver, share):
    turns, account = Turns(driver, loop), Account("ann", share)
    running = turns.run(work(use_processor), account)
    running.send(None)
    assert turns._owed_ns == 0, "only suspect: it was not measured"
    running.send(None)
    assert account.is_heavy
    assert turns._owed_ns >= share * 3 * TURN_NS


def test_who_was_only_interrupted_owes_nothing_and_does_not_pause(loop, driver):
    turns, account = Turns(driver, loop), Account("ann")

    def be_interrupted() -> None:
        time.sleep(3 * TURN_NS / 1e9)
        assert runtime_turns.current is not None
        runtime_turns.current.pause()

    running = turns.run(work(be_interrupted), account)
    assert [running.send(None) for _ in range(5)] == [None] * 5, "a pause would yield its wait"
    assert not account.is_heavy and turns._owed_ns == 0
