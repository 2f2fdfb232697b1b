"""When a request that takes long gets its next turn, on a loop whose timers the test runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.embedded.runtime import turns as runtime_turns
from harness.embedded.server import turns as server_turns
from harness.embedded.server.tds_listener import LONG_READ, TdsProtocol
from harness.embedded.server.turns import (
    BUSY_NS,
    OTHERS_SHARE,
    OTHERS_SHARE_OF_ACTIVATED,
    OWED_NS_MAX,
    PAUSE_NS_MAX,
    SUSPECT_TURNS,
    TURN_NS,
    Account,
    Turns,
)


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
def turns(loop: TimersOnly, monkeypatch: pytest.MonkeyPatch) -> Turns:
    monkeypatch.setattr(server_turns, "_delayed_ns", lambda: 0)
    return Turns(loop)  # type: ignore[arg-type]


@pytest.fixture
def now_ns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The time, which a test changes."""
    now = [1_000 * BUSY_NS]
    monkeypatch.setattr(server_turns, "_now_ns", lambda: now[0])
    return now


def heavy(login: str = "ann") -> Account:
    account = Account(login)
    account.is_heavy = True
    return account


def stand(turns: Turns, account: Account, woken: list[str], name: str) -> None:
    """The next request of an account whose requests take long."""
    turns.run(iter(()), account).send(None).arm(SimpleNamespace(wake=woken.append), name)  # type: ignore[arg-type]


def owing(turns: Turns, account: Account) -> list[str]:
    """The tasks that were woken; one stands in the queue, and 10 ms are owed."""
    woken: list[str] = []
    stand(turns, account, woken, "task")
    turns._running.owed_ns = 10_000_000
    return woken


def test_a_request_alone_goes_on_at_once_and_owes_nothing_however_much_came_before(turns, loop, now_ns):
    turns.sent(Account("bob"))
    now_ns[0] += BUSY_NS
    woken = owing(turns, heavy())
    assert [loop.run_next(), loop.run_next()] == [0, 0]  # what has arrived is read between the two
    assert woken == ["task"] and not loop.timers
    assert turns._running.owed_ns == 0


def test_what_a_session_sent_itself_is_not_of_others(turns, loop, now_ns):
    account = Account("ann")
    turns.sent(Account("bob"))
    now_ns[0] += BUSY_NS
    for _ in range(2):
        turns.sent(account)
    account.is_heavy = True
    woken = owing(turns, account)
    assert [loop.run_next(), loop.run_next()] == [0, 0]
    assert woken == ["task"]


@pytest.mark.parametrize("is_before_own", [False, True])
def test_where_others_sent_something_a_moment_ago_they_get_their_share(turns, loop, now_ns, is_before_own):
    account = Account("ann")
    turns.sent(Account("bob"))
    if is_before_own:
        turns.sent(account)
    account.is_heavy = True
    now_ns[0] += BUSY_NS - 1
    woken = owing(turns, account)
    assert [loop.run_next(), loop.run_next()] == [0, 0]
    assert not woken
    assert loop.run_next() == pytest.approx(0.010)
    assert woken == ["task"]


def test_logins_take_turns_however_many_requests_each_of_them_has(turns, loop):
    given: list[str] = []
    for login, count in (("hog", 4), ("other", 2), ("third", 1)):
        for number in range(count):
            stand(turns, heavy(login), given, f"{login} {number}")
    while loop.timers:
        loop.run_next()
    assert given == ["hog 0", "other 0", "third 0", "hog 1", "other 1", "hog 2", "hog 3"]


def test_a_request_is_read_without_waiting_for_those_that_run(turns, loop):
    given: list[str] = []
    turns.sent(Account("bob"))
    turns._running.owed_ns = PAUSE_NS_MAX
    stand(turns, heavy(), given, "running")
    turns.after_reading(Account("ann"), 1_000).send(None).arm(SimpleNamespace(wake=given.append), "reading")
    while loop.timers:
        loop.timers.sort(key=lambda timer: timer[0])
        loop.run_next()
    assert given == ["reading", "running"]


def use_processor() -> None:
    until_ns = time.thread_time_ns() + 3 * TURN_NS
    while time.thread_time_ns() < until_ns:
        pass


def work(step: Callable[[], None]) -> Iterator[None]:
    while True:
        step()
        yield


@pytest.mark.parametrize("share", [OTHERS_SHARE, OTHERS_SHARE_OF_ACTIVATED])
def test_who_uses_the_processor_for_long_owes_the_others_their_share(turns, share):
    account = Account("ann", share)
    running = turns.run(work(use_processor), account)
    running.send(None)
    assert turns._running.owed_ns == 0, "only suspect: it was not measured"
    running.send(None)
    assert account.is_heavy
    assert turns._running.owed_ns >= share * 3 * TURN_NS


def test_a_first_turn_is_owed_from_the_first_look_at_it(turns):
    def take_long() -> None:
        assert runtime_turns.current is not None
        use_processor()
        runtime_turns.current.pause()
        use_processor()

    turns.run(work(take_long), Account("ann")).send(None)
    assert turns._running.owed_ns >= OTHERS_SHARE * 3 * TURN_NS


def test_who_was_only_interrupted_owes_nothing_and_does_not_pause(turns):
    account = Account("ann")

    def be_interrupted() -> None:
        time.sleep(3 * TURN_NS / 1e9)
        assert runtime_turns.current is not None
        runtime_turns.current.pause()

    running = turns.run(work(be_interrupted), account)
    assert [running.send(None) for _ in range(5)] == [None] * 5, "a pause would yield its wait"
    assert not account.is_heavy and turns._running.owed_ns == 0


def pause_s(turns: Turns, loop: TimersOnly) -> float:
    """The length of a pause, which ends, while others send."""
    stand(turns, heavy(), [], "task")
    turns.sent(Account("bob"))
    delays_s = [loop.run_next() for _ in range(3)]
    return delays_s[-1]


def test_time_in_which_other_processes_had_the_processor_is_not_the_others(turns, loop, monkeypatch):
    delayed_ns = iter([70_000_000, 76_000_000, 76_000_000, 76_000_000])
    monkeypatch.setattr(server_turns, "_delayed_ns", lambda: next(delayed_ns))
    turns._running.owed_ns = 10_000_000
    assert [pause_s(turns, loop) for _ in range(2)] == pytest.approx([0.010, 0.006])
    assert turns._running.owed_ns == 0


def test_the_system_says_how_long_a_thread_was_delayed_or_nothing(monkeypatch):
    assert server_turns._delayed_ns() >= 0
    monkeypatch.setattr(server_turns, "Path", lambda path: Path("does not exist"))
    assert server_turns._delayed_ns() == 0


def test_a_debt_beyond_the_longest_pause_is_paid_later_up_to_a_bound(turns, loop):
    turns._running.owed_ns = 10 * OWED_NS_MAX
    pauses = OWED_NS_MAX // PAUSE_NS_MAX
    longest_s = PAUSE_NS_MAX / 1e9
    assert [pause_s(turns, loop) for _ in range(pauses + 1)] == [longest_s] * pauses + [0]


def test_requests_that_take_long_are_nobody_else_to_each_other(turns, loop):
    given: list[str] = []
    for name in ("first", "second"):
        account = heavy(name)
        turns.sent(account)
        stand(turns, account, given, name)
        turns._running.owed_ns = 10_000_000
    assert [loop.run_next() for _ in range(4)] == [0] * 4
    assert given == ["first", "second"]


@pytest.mark.parametrize(
    ("step", "is_suspect"), [(use_processor, True), (lambda: time.sleep(2 * TURN_NS / 1e9), False)]
)
def test_who_was_measured_and_only_interrupted_is_not_suspect_for_longer(turns, step, is_suspect):
    account = Account("ann")
    account.suspect_turns = 1
    running = turns.run(work(step), account)
    running.send(None)
    assert account.is_heavy == is_suspect
    assert account.suspect_turns == (SUSPECT_TURNS if is_suspect else 0)


def test_a_request_that_takes_long_stands_in_the_queue_of_its_login(turns):
    def take_long() -> None:
        use_processor()
        assert runtime_turns.current is not None
        runtime_turns.current.pause()

    account = Account("ann")
    account.suspect_turns = 1
    wait = turns.run(work(take_long), account).send(None)
    assert wait.account is account


def test_reading_a_part_of_a_long_request_is_owed_and_waits_for_a_turn(turns, loop):
    given: list[str] = []
    turns.after_reading(Account("ann"), 1_000_000).send(None).arm(SimpleNamespace(wake=given.append), "reading")
    turns.sent(Account("bob"))
    delays_s = [loop.run_next() for _ in range(3)]
    assert delays_s[-1] == pytest.approx(OTHERS_SHARE / 1000)
    assert given == ["reading"]


def test_the_end_of_a_long_request_is_owed_as_its_parts_are():
    spawned: list[str] = []
    sent: list[Account] = []
    listener = SimpleNamespace(
        turns=SimpleNamespace(sent=sent.append),
        scheduler=SimpleNamespace(spawn=lambda task, name: spawned.append(name)),
        driver=SimpleNamespace(arrive=lambda: None, run=lambda: None),
    )
    protocol = TdsProtocol(listener)  # type: ignore[arg-type]
    protocol._transport = SimpleNamespace(pause_reading=lambda: None)  # type: ignore[assignment]
    protocol._receive = lambda data: []  # type: ignore[method-assign]
    owed = []
    for size in (10, LONG_READ, LONG_READ, 10, 10):
        protocol.data_received(bytes(size))
        owed.append(len(spawned))
    assert owed == [0, 1, 2, 3, 3]
    assert len(sent) == 2, "parts of a long request are nobody's who is busy"
