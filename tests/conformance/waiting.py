"""Waiting for what the server does asynchronously."""

import time
from collections.abc import Callable
from typing import TypeVar

from tests.parity.recording import attempt

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 120.0) -> T:
    """The first true value of the condition; fails when the time is up. A recording keeps only the last attempt."""
    deadline = time.monotonic() + timeout_s
    while True:
        with attempt() as forget:
            if value := condition():
                return value
            assert time.monotonic() < deadline, f"the condition was not met within {timeout_s:g} s"
            forget()
        time.sleep(0.02)
