"""Memory of the server process: what is not in use any more goes back to the system.

Three things would keep it. glibc raises its thresholds with every large block that is freed, keeps what lies between
blocks in use, and gives each thread an arena. Compiled statements are cyclic: only a collection of garbage frees them,
and the oldest generation is collected rarely, because that stops the server. SQLite's prepared statements are kept by
number, however long they are. So ten times a second the watch looks how much the process has grown.

Rows, messages and variables have no other bound, so each kind has a share of the memory. Statements that need more of a
share that is used up fail with 701, those that free some go on. SQLite keeps the memory of deleted rows for the next
ones. Where that is much, and few rows are left to be moved together, the watch has SQLite give it back.
"""

import asyncio
import ctypes
import gc
import os
import resource
from collections.abc import Callable
from pathlib import Path

from harness.embedded.tsql.instance.instance import Instance

LOOK_S = 0.1
# Shares of what the machine, the container and the address space of the process have; SQL Server on Linux takes 0.8
TABLES_SHARE = 0.3
TABLE_VARIABLES_SHARE = 0.15
REST_SHARE = 0.35  # messages, variables, changes that are not committed, all else
GROWTH_BYTES = 64 * 1024 * 1024  # since the last time, and a quarter of what was in use then
ROWS_LEFT_SHARE = 0.25  # of what deleted rows have left in SQLite: with more rows it keeps the memory
FREE_AGAIN_S = 10.0  # a collection of garbage takes long where there is much memory in use
MMAP_BYTES = 1024 * 1024  # blocks from this size on go back to the system when they are freed

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of mallopt(3)


def _sizes_bytes() -> tuple[int, int]:
    """Address space and memory of this process; 0 if the system does not report them."""
    try:
        with open("/proc/self/statm", "rb", buffering=0) as file:  # `Path` takes twice as long
            address_space, resident, *_ = file.read().split()
    except OSError:
        return 0, 0
    page_bytes = os.sysconf("SC_PAGE_SIZE")
    return int(address_space) * page_bytes, int(resident) * page_bytes


def resident_bytes() -> int:
    """Memory of this process; 0 if the system does not report it."""
    return _sizes_bytes()[1]


def _memory_bytes() -> int:
    """Memory of the machine, or of the container if that is less."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return memory_bytes
    return min(memory_bytes, int(text)) if text.isdecimal() else memory_bytes


def _is_worth_compacting(sizes_bytes: tuple[int, int]) -> bool:
    size_bytes, rows_bytes = sizes_bytes
    free_bytes = size_bytes - rows_bytes
    return free_bytes > GROWTH_BYTES and rows_bytes < ROWS_LEFT_SHARE * free_bytes


class MemoryWatch:
    """Frees memory when the process has grown by much, and refuses growth when there is little left."""

    def __init__(self, loop: asyncio.AbstractEventLoop, instance: Instance) -> None:
        self._loop = loop
        self._instance = instance
        self._memory_bytes: float = _memory_bytes()
        self._address_space_bytes = float("inf")
        limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit_bytes != resource.RLIM_INFINITY:
            self._address_space_bytes = limit_bytes
            self._memory_bytes = min(self._memory_bytes, limit_bytes)
        library = ctypes.CDLL(None)
        self._trim: Callable[[int], int] | None = getattr(library, "malloc_trim", None)  # glibc's alone
        if self._trim is not None:
            library.mallopt(_M_ARENA_MAX, 2)
            library.mallopt(_M_MMAP_THRESHOLD, MMAP_BYTES)
            library.mallopt(_M_TRIM_THRESHOLD, MMAP_BYTES)
        self._free_again_s = 0.0
        self._rows_bytes = 0  # of all tables and table variables at the last look
        self._free_later_s = float("inf")
        instance.sqlite.look_again = self._divide
        self._used_bytes = resident_bytes()  # after the last time
        self._look_later()

    def _look_later(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        used_bytes = resident_bytes()
        if used_bytes > self._used_bytes + max(GROWTH_BYTES, self._used_bytes // 4):
            used_bytes = self._used_bytes = self._free()
            self._free_later_s = self._loop.time() + FREE_AGAIN_S
        elif self._loop.time() >= self._free_later_s:
            # What was in use at the peak may have been let go since, without any growth that would show it.
            self._free_later_s = float("inf")
            used_bytes = self._free()
        self._used_bytes = min(self._used_bytes, used_bytes)
        sizes_bytes = self._divide()
        if self._loop.time() >= self._free_again_s and _is_worth_compacting(sizes_bytes):
            self._free_again_s = self._loop.time() + FREE_AGAIN_S
            self._instance.sqlite.compact()
            self._free()
        self._look_later()

    def _free(self) -> int:
        self._instance.forget_compiled()
        gc.collect()
        if self._trim is not None:
            self._trim(0)
        return resident_bytes()

    def _divide(self) -> tuple[int, int]:
        """Say which shares are used up; returns the memory of all tables and table variables, as `sizes_bytes` does."""
        sqlite = self._instance.sqlite
        tables_bytes, table_rows_bytes = sqlite.sizes_bytes("main")
        variables_bytes, variable_rows_bytes = sqlite.sizes_bytes("temp")
        self._rows_bytes = both_bytes = tables_bytes + variables_bytes
        is_full = self._rest_is_full(both_bytes)
        if is_full and self._loop.time() >= self._free_again_s:
            self._free_again_s = self._loop.time() + FREE_AGAIN_S
            self._free()
            is_full = self._rest_is_full(both_bytes)
        sqlite.memory_is_full = is_full
        sqlite.tables_are_full = is_full or table_rows_bytes > TABLES_SHARE * self._memory_bytes
        sqlite.table_variables_are_full = is_full or variable_rows_bytes > TABLE_VARIABLES_SHARE * self._memory_bytes
        return both_bytes, table_rows_bytes + variable_rows_bytes

    def is_short(self) -> bool:
        """Whether a statement that runs must end, because all but rows of tables takes more than its share."""
        return self._rest_is_full(self._rows_bytes)

    def _rest_is_full(self, rows_bytes: int) -> bool:
        address_space, resident = _sizes_bytes()
        return (
            resident - rows_bytes > REST_SHARE * self._memory_bytes
            or address_space - rows_bytes > REST_SHARE * self._address_space_bytes
        )
