"""Memory of the server process: what is not in use any more goes back to the system.

Three things would keep it. glibc raises its thresholds with every large block that is freed, keeps what lies between
blocks in use, and gives each thread an arena. Compiled statements are cyclic: only a collection of garbage frees them,
and the oldest generation is collected rarely, because that stops the server. SQLite's prepared statements are kept by
number, however long they are. So once a second the watch looks how much the process has grown.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path

LOOK_S = 1.0
GROWTH_BYTES = 64 * 1024 * 1024  # since the last time, and a quarter of what was in use then
MMAP_BYTES = 1024 * 1024  # blocks from this size on go back to the system when they are freed

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of mallopt(3)


def resident_bytes() -> int:
    """Memory of this process; 0 if the system does not report it."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Frees memory when the process has grown by much. `forget` drops what can be made again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, forget: Callable[[], None]) -> None:
        self._loop = loop
        self._forget = forget
        library = ctypes.CDLL(None)
        self._trim: Callable[[int], int] | None = getattr(library, "malloc_trim", None)  # glibc's alone
        if self._trim is not None:
            library.mallopt(_M_ARENA_MAX, 2)
            library.mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES)
            library.mallopt(_M_TRIM_THRESHOLD, MMAP_BYTES)
        self._used_bytes = resident_bytes()  # after the last time
        self._look_later()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        used_bytes = resident_bytes()
        if used_bytes > self._used_bytes + max(GROWTH_BYTES, self._used_bytes // 4):
            self._forget()
            gc.collect()
            if self._trim is not None:
                self._trim(0)
            used_bytes = self._used_bytes = resident_bytes()
        self._used_bytes = min(self._used_bytes, used_bytes)
        self._look_later()
