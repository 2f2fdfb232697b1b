"""Guessing of passwords is slowed; clients that know theirs are not."""

import asyncio

import pytest

from harness.embedded.broker.definitions import Login
from harness.embedded.errors import SqlServerError
from harness.embedded.server import attempts, authentication, passwords
from harness.embedded.server.attempts import BURST, INTERVAL_S, Attempts
from harness.embedded.server.authentication import LoginAuthenticator
from harness.embedded.tds.login import Login7

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


class Logins:
    """An engine, as far as the authenticator asks it for passwords."""

    def __init__(self, **passwords: str) -> None:
        self.logins = {name: Login(name, 300, password.encode()) for name, password in passwords.items()}
        self.name = "engine"
        self.notifier = self

    def notify(self, event: str, details: str) -> None:
        """Take what event notifications are told."""


def login(user: str, password: str) -> Login7:
    return Login7(0, 4096, "", user, password, "", "", integrated_security=False, features=frozenset())


def test_a_password_is_hashed_once_for_a_pool_and_again_after_it_has_changed(monkeypatch):
    hashed: list[str] = []

    def matches(password: str, stored: bytes) -> bool:
        hashed.append(password)
        return password.encode() == stored

    monkeypatch.setattr(authentication.passwords, "matches", matches)
    monkeypatch.setattr(authentication, "REFUSAL_S", 0)

    async def story() -> None:
        engine = Logins(ann="right")
        door = LoginAuthenticator(engine, sa_password="sa's", loop=asyncio.get_running_loop())  # type: ignore[arg-type]
        assert door.is_known(login("SA", "sa's"), "a") and not door.is_known(login("sa", "x"), "a")
        await asyncio.gather(*(door.check(login("ann", "right"), "a") for _ in range(200)))
        assert hashed == ["right"] and door.is_known(login("Ann", "right"), "b")
        for wrong in (login("ann", "wrong"), login("nobody", "right"), login("sa", "right")):
            with pytest.raises(SqlServerError, match="Login failed"):
                await door.check(wrong, "a")
        assert hashed == ["right", "wrong"]
        engine.logins["ann"].password_hash = b"new"
        assert not door.is_known(login("ann", "right"), "a")
        await door.check(login("ann", "new"), "a")
        engine.logins["ann"].is_disabled = True
        assert not door.is_known(login("ann", "new"), "a")

    asyncio.run(story())


@pytest.mark.parametrize("cost", [passwords.LASTING, passwords.THROWAWAY], ids=["lasting", "throwaway"])
def test_a_hash_is_salted_and_matches_its_password_alone(cost):
    one, other = passwords.hashed("Secret", cost), passwords.hashed("Secret", cost)
    assert one != other and b"Secret" not in one
    assert passwords.matches("Secret", one) and not passwords.matches("secret", one)
