"""Turns: how a request that takes long lets others go on in the middle of code that does not yield.

A parser, a renderer or a loop over rows calls `pause` now and then, and a sink whose client does not read calls `wait`.
In the real server a request runs in a greenlet (`server.turns`), which these two leave and enter again. In virtual time
there are no turns: `pause` does nothing, and nothing calls `wait`.
"""

from __future__ import annotations

from typing import Any, Protocol

from harness.embedded.runtime.tasks import Wait


class Turn(Protocol):
    def pause(self) -> None:
        """Let others go on if the turn has lasted long enough."""
        ...

    def pause_in_cleanup(self) -> None:
        """The same where a cancelled task must go on: it is cancelled at its next wait, or when the request ends."""
        ...

    def wait(self, wait: Wait) -> Any:
        """Do as if the request had yielded the wait; returns what the `yield` would return."""
        ...


current: Turn | None = None  # of the request that runs now


def pause() -> None:
    """Let others go on if this turn has lasted long enough. Where a greenlet may stop, so may a task that is cancelled:
    call it only where `Cancelled` does no harm."""
    if current is not None:
        current.pause()


def pause_in_cleanup() -> None:
    """Let others go on inside what must not be left half done: undoing changes, handing a commit over."""
    if current is not None:
        current.pause_in_cleanup()
