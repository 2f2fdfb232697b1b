"""Waiting for the effect of another process or thread that cannot signal it."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], timeout_s: float = 120.0) -> T:
    """The first true value of the condition; fails when the time is up."""
    deadline = time.monotonic() + timeout_s
    pause_s = 0.01
    while not (value := condition()):
        assert time.monotonic() < deadline, f"the condition was not met within {timeout_s:g} s"
        time.sleep(pause_s)
        pause_s = min(0.1, 1.5 * pause_s)  # a look at all processes takes milliseconds of a busy processor
    return value
