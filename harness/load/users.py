"""Locust's side of a client: the user class, and the seats that join users to native threads."""

from __future__ import annotations

from typing import Any

from gevent.event import Event
from locust import User, constant, task

from harness.load.threads import ClientThread, ThreadState


class Seats:
    """The users of this worker in the order in which they started, each with its thread; and the parked threads."""

    def __init__(self) -> None:
        self._taken: dict[int, ClientThread] = {}  # by ordinal of the user
        self._parked: list[ClientThread] = []
        self._next_ordinal = 0

    def take(self) -> int:
        """Gives a user the thread that was parked last, or a new one; the user's ordinal."""
        ordinal, self._next_ordinal = self._next_ordinal, self._next_ordinal + 1
        self._taken[ordinal] = self._parked.pop() if self._parked else ClientThread()
        return ordinal

    def leave(self, ordinal: int) -> None:
        thread = self._taken.pop(ordinal)
        thread.park()
        if thread.state is ThreadState.PARKED:
            self._parked.append(thread)

    @property
    def threads(self) -> list[ClientThread]:
        """Thread k of a cell is that of the k-th user: users that stay keep their order."""
        return list(self._taken.values())

    def replace(self, stuck: ClientThread) -> None:
        """Abandons a thread that does not return; its user gets a new one."""
        for ordinal, thread in self._taken.items():
            if thread is stuck:
                thread.retire()
                self._taken[ordinal] = ClientThread()


class TestClient(User):
    """One of the paper's client threads. Its greenlet only holds the seat; the loop runs in the native thread."""

    __test__ = False  # pytest would take it for a test
    wait_time = constant(0)

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._ordinal: int | None = None

    def on_start(self) -> None:
        self._ordinal = self.environment.seats.take()

    @task
    def hold_the_seat(self) -> None:
        Event().wait()  # until Locust stops this user

    def on_stop(self) -> None:
        if self._ordinal is not None:
            self.environment.seats.leave(self._ordinal)
            self._ordinal = None
