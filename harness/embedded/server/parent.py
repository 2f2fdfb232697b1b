"""What an instance does for the process that started it: it ends with it, and moves its clock for its tests."""

import asyncio
import ctypes
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable

from harness.failures import UsageFailure

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def obey_parent(
    loop: asyncio.AbstractEventLoop, *, stop: Callable[[], None], advance: Callable[[float], Awaitable[None]]
) -> None:
    """Read standard input, a pipe that the parent holds open, and stop when it ends.

    A line is a number of seconds by which to `advance` the clock. The answer is a line of JSON on standard output:
    `{"advanced_s": 60.0}` when what was due is done, or `{"error": ...}`.
    """
    unread = b""
    work: asyncio.Task[None] | None = None  # the latest, to be kept: the loop refers to it weakly

    async def answer(lines: list[bytes]) -> None:
        for line in lines:
            try:
                await advance(seconds := float(line))
            except (ValueError, OverflowError):
                said: dict[str, object] = {"error": f"not a number of seconds: {line.decode(errors='replace')}"}
            except TimeoutError:
                said = {"error": "tasks have not ended their work: does an activated procedure run for ever?"}
            else:
                said = {"advanced_s": seconds}
            print(json.dumps(said), flush=True)  # noqa: T201

    def read() -> None:
        nonlocal unread, work
        piece = os.read(sys.stdin.fileno(), 4096)
        if not piece:
            loop.remove_reader(sys.stdin.fileno())
            stop()
        *lines, unread = (unread + piece).split(b"\n")
        if lines:
            work = loop.create_task(answer(lines))

    try:
        loop.add_reader(sys.stdin.fileno(), read)
    except (OSError, ValueError):
        raise UsageFailure(
            "--with-parent needs a pipe as standard input: give it one, or leave the option out"
        ) from None
