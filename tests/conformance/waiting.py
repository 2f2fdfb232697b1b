"""Waiting for what the server does in its own time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from tests.parity.recording import attempt

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 10.0) -> T:
    """The first true value of the condition; a failure once the time is up. A recording keeps the last attempt alone."""
    deadline = time.monotonic() + timeout_s
    while True:
        with attempt() as forget:
            if value := condition():
                return value
            assert time.monotonic() < deadline, "condition not reached in time"
            forget()
        time.sleep(0.02)
