"""What makes a query a long one, which a fork reads."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from harness.embedded.runtime import turns
from harness.embedded.server import long_reads
from harness.embedded.server.long_reads import LongReads
from harness.embedded.tsql.storage.reads import ReadTooLong
from harness.embedded.tsql.storage.sqlite import Sqlite


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[LongReads]:
    monkeypatch.setattr(turns, "current", SimpleNamespace())
    loop = asyncio.new_event_loop()
    store: Any = SimpleNamespace(in_sqlite=threading.Lock())
    scheduler: Any = SimpleNamespace()
    yield LongReads(Sqlite(), store, scheduler, loop)
    loop.close()


def _rows(reads: LongReads, work: Callable[[], None]) -> list[tuple[Any, ...]]:
    for _ in range(2 * long_reads.LOOKS_MIN):
        work()
        reads.check()
    return [(1,)]


def test_a_query_is_not_long_because_others_keep_the_machine_busy(reads: LongReads) -> None:
    query: Any = SimpleNamespace(is_long=False)
    rest_s = long_reads.READ_NS / 1e9
    assert reads.at_once(query, lambda: _rows(reads, lambda: time.sleep(rest_s))) == [(1,)]
    assert not query.is_long


def test_a_query_that_computes_for_long_is_long(reads: LongReads) -> None:
    query: Any = SimpleNamespace(is_long=False)

    def compute() -> None:
        end_ns = time.thread_time_ns() + long_reads.READ_NS
        while time.thread_time_ns() < end_ns:
            pass

    with pytest.raises(ReadTooLong):
        reads.at_once(query, lambda: _rows(reads, compute))
    assert query.is_long


@pytest.mark.parametrize(("used_ms", "is_long"), [(17, False), (30, True)])
def test_a_query_comes_back_from_forks(
    monkeypatch: pytest.MonkeyPatch, reads: LongReads, used_ms: int, is_long: bool
) -> None:
    """A query of 5.5 ms took 17 ms in a fork of a server with a million messages."""
    fork = SimpleNamespace(pieces=lambda: iter(("read",)), end=lambda: None, used_ns=used_ms * 1_000_000)
    monkeypatch.setattr(long_reads, "_Fork", lambda read, loop, turn: fork)
    query: Any = SimpleNamespace(is_long=True)
    assert reads.value(query, "sa", lambda: "not read here") == "read"
    assert query.is_long is is_long
