"""What the Locust processes have in common: the user class, orders and their answers."""

import functools
import hashlib
import importlib.metadata
import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypedDict

import gevent
from gevent.event import AsyncResult, Event
from gevent.fileobject import FileObjectPosix
from locust import User, constant, task

from harness.load.messages import Answer, Failed, Message, decode, encode
from harness.output.safe_text import visible_lines

Handlers = dict[type[Message], Callable[[Any], Answer | None]]
JOIN = "harness-join"  # Locust's name of the message with which a worker introduces itself; its data is an Introduction
REFUSE = "harness-refuse"  # the master's answer to one of another version; its data is the reason
LINE = "harness-line"  # of the messages that carry a line of `messages`


class VisibleRecord(logging.LogRecord):
    """A record of a log, with errors of servers among the texts."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if self.exc_info:
            self.exc_text = visible_lines(logging.Formatter().formatException(self.exc_info))

    def getMessage(self) -> str:
        return visible_lines(super().getMessage())


class Introduction(TypedDict):
    """What a worker says of itself."""

    version: str
    host: str
    process: int


@functools.cache
def version() -> str:
    """The harness's version, and a digest of what workers run: a checkout may have changed under the same version."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted([*package.glob("*.py"), *package.glob("load/*.py")]):
        digest.update(path.read_bytes())
    return f"{importlib.metadata.version('service-broker-harness')} ({digest.hexdigest()[:8]})"


def carry_out(message: Message, number: int, handlers: Handlers, tell: Callable[[Message, int], None]) -> None:
    """Carry out an order in a greenlet of its own, and answer."""

    def run() -> None:
        try:
            answer = handlers[type(message)](message)
        except Exception as error:
            answer = Failed(str(error) or type(error).__name__)
        if answer is not None:
            tell(answer, number)

    gevent.spawn(run)


class Pipe:
    """The master's messages from the sweep's process on stdin, to it on stdout. Use it from the hub's thread."""

    def __init__(self) -> None:
        self._input = FileObjectPosix(os.dup(0), "rb")
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever prints goes to the log
        self._numbers = itertools.count(1)
        self._asked: dict[int, AsyncResult] = {}

    def tell(self, message: Message, number: int = 0) -> None:
        self.pass_on("", encode(message, number))

    def pass_on(self, worker: str, line: bytes) -> None:
        """Write a worker's line."""
        left = memoryview(worker.encode() + b"\t" + line)
        while left:
            left = left[os.write(self._output, left) :]

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

    def serve(self, handlers: Handlers, to_worker: Callable[[str, str], None]) -> NoReturn:
        """Carry out orders and hand on those to workers. The process ends with its parent."""
        for text in self._input:
            worker, _, line = text.partition(b"\t")
            if worker:
                to_worker(worker.decode(), line.decode())
                continue
            number, message = decode(line)
            if not isinstance(message, Answer):
                carry_out(message, number, handlers, self.tell)
            elif future := self._asked.get(number):
                future.set(message)
        os._exit(0)


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
