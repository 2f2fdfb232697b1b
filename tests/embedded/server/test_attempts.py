"""Guessing of passwords is slowed; clients that know theirs are not."""

from __future__ import annotations

import asyncio

from harness.embedded.server import attempts
from harness.embedded.server.attempts import BURST, INTERVAL_S, Attempts

PAIR = ("sa", "192.0.2.1")


class VirtualLoop:
    """As much of an asyncio loop as `Attempts` uses, with time that a test moves."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.due: list[tuple[float, object, tuple[object, ...]]] = []

    def time(self) -> float:
        return self.now_s

    def call_later(self, delay_s: float, call, *arguments):
        self.due.append((self.now_s + delay_s, call, arguments))
        return self.due[-1]

    def create_future(self) -> asyncio.Future:
        return asyncio.get_running_loop().create_future()

    async def run_for(self, seconds: float) -> None:
        end_s = self.now_s + seconds
        await settle()
        while self.due and min(self.due)[0] <= end_s:
            first = min(self.due, key=lambda entry: entry[0])
            self.due.remove(first)
            self.now_s = first[0]
            first[1](*first[2])
            await settle()
        self.now_s = end_s


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_wrong_passwords_use_the_burst_up_and_then_have_one_turn_a_second():
    async def story() -> None:
        loop = VirtualLoop()
        tried = Attempts(loop)  # type: ignore[arg-type]
        answered = 0

        async def guess() -> None:
            nonlocal answered
            await tried.wait(PAIR)
            answered += 1

        guesses = [asyncio.create_task(guess()) for _ in range(100)]
        await settle()
        assert answered == BURST
        await loop.run_for(20 * INTERVAL_S)
        assert answered == BURST + 20
        assert not tried.take(PAIR), "nobody overtakes those who wait"
        assert tried.take(("sa", "192.0.2.2")), "another address is not slowed"
        assert tried.take(("other", "192.0.2.1")), "nor is another login"
        for each in guesses:
            each.cancel()
        await settle()
        await loop.run_for(BURST * INTERVAL_S)
        assert tried.take(PAIR), "those who gave up do not hold the line"

    asyncio.run(story())


def test_a_pool_with_the_right_password_is_never_slowed():
    async def story() -> None:
        loop = VirtualLoop()
        tried = Attempts(loop)  # type: ignore[arg-type]
        for _ in range(7_500):
            assert tried.take(PAIR)
            tried.give_back(PAIR)

        async def log_in() -> None:
            await tried.wait(PAIR)
            await asyncio.sleep(0)  # the hash of the first is computed
            tried.give_back(PAIR)

        await asyncio.gather(*(log_in() for _ in range(7_500)))
        assert loop.now_s == 0

    asyncio.run(story())


def test_a_flood_of_names_is_remembered_within_bounds(monkeypatch):
    monkeypatch.setattr(attempts, "PAIRS_MAX", 100)

    async def story() -> None:
        tried = Attempts(VirtualLoop())  # type: ignore[arg-type]
        for number in range(1000):
            tried.take((f"name{number}", "192.0.2.1"))
        assert len(tried._buckets) == 100

    asyncio.run(story())
