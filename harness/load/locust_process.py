"""What the Locust processes have in common: the user class and the pipes to their parent."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import gevent
from gevent.event import AsyncResult, Event
from gevent.fileobject import FileObjectPosix
from locust import User, constant, task

from harness.load.messages import Answer, Failed, Message, decode, encode


class Pipe:
    """Messages from the parent on stdin, to it on stdout. Use it from the hub's thread."""

    def __init__(self) -> None:
        self._input = FileObjectPosix(os.dup(0), "rb")
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever prints goes to the log
        self._numbers = itertools.count(1)
        self._asked: dict[int, AsyncResult] = {}

    def tell(self, message: Message, number: int = 0) -> None:
        os.write(self._output, encode(message, number))

    def ask(self, message: Message, *, timeout_s: float) -> Any:
        """The parent's answer; RuntimeError with its reason, or gevent.Timeout."""
        number = next(self._numbers)
        result = self._asked[number] = AsyncResult()
        try:
            self.tell(message, number)
            answer = result.get(timeout=timeout_s)
        finally:
            del self._asked[number]
        if isinstance(answer, Failed):
            raise RuntimeError(answer.reason)
        return answer

    def serve(self, handlers: Mapping[type[Message], Callable[[Any], Answer | None]]) -> NoReturn:
        """Carries out orders, each in a greenlet of its own. The process ends with its parent."""
        for line in self._input:
            number, message = decode(line)
            if not isinstance(message, Answer):
                gevent.spawn(self._carry_out, number, message, handlers[type(message)])
            elif asked := self._asked.get(number):
                asked.set(message)
        os._exit(0)  # threads that are still in a call do not hold the process

    def _carry_out(self, number: int, message: Message, handler: Callable[[Any], Answer | None]) -> None:
        try:
            answer = handler(message)
        except Exception as error:
            answer = Failed(str(error) or type(error).__name__)
        if answer is not None:
            self.tell(answer, number)


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
