"""Questions and answers over Locust's messages: asked again until answered, acted on once.

The master asks (`cell_prepare`, `cell_start`, `cell_stop`), a worker answers (`cell_answer`). ZeroMQ keeps order but
may drop a message when a connection is made anew, so a question carries a number and is repeated; a worker that hears
the same number again repeats its answer, once it has one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from gevent import Timeout, sleep
from gevent.event import AsyncResult

ANSWER = "cell_answer"
REPEAT_AFTER_S = 1.0


class Unanswered(Exception):
    """A worker did not answer in time, or answered that it could not; the message says why."""


class Asker:
    """The master's end."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._numbers = itertools.count(1)
        self._waiting: dict[int, AsyncResult] = {}
        runner.register_message(ANSWER, self._on_answer)

    def ask(self, client_id: str, question: str, data: dict[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The worker's answer; Unanswered if it failed or none came."""
        number = next(self._numbers)
        answer = self._waiting[number] = AsyncResult()
        try:
            with Timeout(timeout_s, Unanswered(f"no answer to {question} within {timeout_s:g} s")):
                while not answer.ready():
                    self._runner.send_message(question, {"question": number, **data}, client_id=client_id)
                    answer.wait(timeout=REPEAT_AFTER_S)
        finally:
            del self._waiting[number]
        result: dict[str, Any] = answer.get()
        if "error" in result:
            raise Unanswered(result["error"])
        return result

    def _on_answer(self, environment: Any, msg: Any, **_: Any) -> None:
        if waiting := self._waiting.get(msg.data["question"]):
            waiting.set(msg.data)


class Answerer:
    """The worker's end."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner
        self._answers: dict[int, dict[str, Any] | None] = {}  # the last few; None while at work

    def on(self, question: str, action: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Answers `question` with what `action` returns, or with the text of the exception it raises."""

        def listener(environment: Any, msg: Any, **_: Any) -> None:
            self._hear(msg.data, action)

        # concurrent: a slow answer must not hold up heartbeats.
        self._runner.register_message(question, listener, concurrent=True)

    def _hear(self, data: dict[str, Any], action: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        number = data["question"]
        if number not in self._answers:
            while len(self._answers) > 8:
                del self._answers[next(iter(self._answers))]
            self._answers[number] = None
            try:
                answer = action(data)
            except Exception as error:
                answer = {"error": str(error) or type(error).__name__}
            self._answers[number] = {"question": number, **answer}
            sleep(0)
        if (known := self._answers[number]) is not None:
            self._runner.send_message(ANSWER, known)
