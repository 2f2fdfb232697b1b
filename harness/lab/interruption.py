"""Ctrl-C that cannot get lost.

A signal that arrives while the main thread is inside an ODBC driver makes the driver's own wait fail (EINTR), and the
KeyboardInterrupt is raised while pyodbc builds its error from that, where it is cleared: the call fails with "The
driver did not supply an error!", or the interrupt leaves no trace at all. So the handler notes it as well, and whoever
waits or goes on to the next step asks.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextlib.contextmanager
def noted() -> Iterator[Callable[[], None]]:
    """SIGINT and SIGTERM raise KeyboardInterrupt, now or, if that was lost, when the function given is called."""
    requested = False

    def handle(*_: object) -> None:
        nonlocal requested
        requested = True
        raise KeyboardInterrupt

    def check() -> None:
        if requested:
            raise KeyboardInterrupt

    previous = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield check
        check()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
