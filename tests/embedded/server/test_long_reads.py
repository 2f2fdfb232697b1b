"""What makes a query a long one, which a fork reads."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
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
    yield LongReads(Sqlite(), loop)
    loop.close()


def _rows(reads: LongReads, work: Callable[[], None]) -> list[tuple[Any, ...]]:
    for _ in range(2 * long_reads.LOOKS_MIN):
        work()
        reads.check()
    return [(1,)]


def test_a_query_is_not_long_because_others_keep_the_machine_busy(reads: LongReads) -> None:
    query: Any = SimpleNamespace(forks_due=0)
    rest_s = long_reads.READ_NS / 1e9
    assert reads.at_once(query, lambda: _rows(reads, lambda: time.sleep(rest_s))) == [(1,)]
    assert not query.forks_due


def test_a_query_that_computes_for_long_is_long(reads: LongReads) -> None:
    query: Any = SimpleNamespace(forks_due=0)

    def compute() -> None:
        end_ns = time.thread_time_ns() + long_reads.READ_NS
        while time.thread_time_ns() < end_ns:
            pass

    with pytest.raises(ReadTooLong):
        reads.at_once(query, lambda: _rows(reads, compute))
    assert query.forks_due == long_reads.FORKS_IN_A_ROW + 1


@pytest.mark.parametrize("after_forks", [False, True])
def test_the_first_try_after_forks_may_take_twice_as_long(reads: LongReads, after_forks: bool) -> None:
    query: Any = SimpleNamespace(forks_due=int(after_forks))

    def compute() -> None:  # ten times
        end_ns = time.thread_time_ns() + long_reads.READ_NS * 0.14
        while time.thread_time_ns() < end_ns:
            pass

    with nullcontext() if after_forks else pytest.raises(ReadTooLong):
        reads.at_once(query, lambda: _rows(reads, compute))
    assert query.forks_due == (0 if after_forks else long_reads.FORKS_IN_A_ROW + 1)


def test_a_query_that_was_long_is_tried_in_place_again_after_some_forks(
    monkeypatch: pytest.MonkeyPatch, reads: LongReads
) -> None:
    monkeypatch.setattr(
        long_reads, "_Fork", lambda read, loop, turn: SimpleNamespace(pieces=lambda: iter(("fork",)), end=lambda: None)
    )
    query: Any = SimpleNamespace(forks_due=long_reads.FORKS_IN_A_ROW + 1)
    read_in = [reads.value(query, "sa", lambda: "here") for _ in range(long_reads.FORKS_IN_A_ROW + 2)]
    assert read_in == ["fork"] * long_reads.FORKS_IN_A_ROW + ["here"] * 2
