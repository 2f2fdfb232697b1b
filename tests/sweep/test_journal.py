from __future__ import annotations

import dataclasses
import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sweep.journal import Entry, Journal, read
from tests.unsafe import NAME, unsafe_in


def entry(cell: str, attempt: int = 1, outcome: str = "completed", run: int = 1) -> Entry:
    return Entry(cell, attempt, outcome, "", "2026-01-01T00:00:00+00:00", run)  # type: ignore[arg-type]


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(dataclasses.replace(entry("a", outcome="failed"), reason=NAME))
    journal.append(entry("a", attempt=2, run=2))
    assert unsafe_in(journal.path.read_text(), besides="\n") == []
    again = Journal(tmp_path / "journal.jsonl")
    assert again.entries == journal.entries
    assert again.completed() == {("a", 1)}
    assert again.attempts("a", 1) == 2
    assert again.attempts("a", 2) == 0
    assert again.next_run() == 3


@given(st.integers(min_value=1, max_value=400))
def test_a_journal_torn_anywhere_keeps_its_whole_lines_and_can_be_written_on(
    tmp_path_factory: pytest.TempPathFactory, kept: int
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(path)
    for name in "abc":
        journal.append(entry(name))
    os.truncate(path, min(kept, path.stat().st_size))
    whole = list(read(path))
    torn = Journal(path)
    torn.append(entry("z"))
    assert [item.cell for item in read(path)] == [*(item.cell for item in whole), "z"]


def test_an_entry_is_flushed_to_the_disk_when_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    flushed: list[bytes] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(journal.path.read_bytes()))
    journal.append(entry("a"))
    journal.append(entry("b"))
    assert [text.count(b"\n") for text in flushed] == [1, 2]


def test_a_full_disk_leaves_the_journal_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    journal.append(entry("a"))
    before = journal.path.read_bytes()
    write = os.write
    calls = iter([True, False])

    def full(descriptor: int, data: bytes) -> int:
        if next(calls):
            return write(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        journal.append(entry("b"))
    assert journal.path.read_bytes() == before
    assert journal.completed() == {("a", 1)}
