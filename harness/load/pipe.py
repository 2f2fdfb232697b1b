"""The end of the pipes that a Locust process holds: messages from its parent on stdin, to it on stdout."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import gevent
from gevent.event import AsyncResult
from gevent.fileobject import FileObjectPosix

from harness.load.messages import Answer, Failed, Message, decode, encode


class Pipe:
    """Use it from the hub's thread."""

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
