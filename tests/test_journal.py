import dataclasses
import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.files.journal import Entry, Journal, completed, read
from harness.files.json_file import DamagedFile
from tests.unsafe import NAME, unsafe_in


def entry(cell: str, attempt: int = 1, outcome: str = "completed", run: int = 1) -> Entry:
    return Entry(cell, attempt, outcome, "", "2026-01-01T00:00:00+00:00", run)  # type: ignore[arg-type]


def test_entries_come_back_as_they_were_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert journal.next_run() == 1
    journal.append(dataclasses.replace(entry("a", outcome="failed"), reason=NAME))
    journal.append(entry("a", attempt=2, run=2))
    assert unsafe_in(journal.path.read_text(), besides="\n") == []
    again = Journal(tmp_path / "journal.jsonl")
    assert again.entries == journal.entries
    assert again.completed() == {("a", 1)}
    assert completed(journal.path) == again.entries[1:]
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
    assert not [file for file in Path("/dev/fd").iterdir() if file.exists() and file.samefile(journal.path)]


@given(begin=st.integers(0, 500), length=st.integers(0, 60), garbage=st.binary(max_size=10))
def test_a_journal_with_other_bytes_anywhere_is_read_or_refused_with_the_line(
    tmp_path_factory: pytest.TempPathFactory, begin: int, length: int, garbage: bytes
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal.jsonl"
    journal = Journal(path)
    for name in "abc":
        journal.append(entry(name))
    whole = path.read_bytes()
    path.write_bytes(whole[:begin] + garbage + whole[begin + length :])
    try:
        assert len(list(read(path))) <= 3 + garbage.count(b"\n")
    except DamagedFile as error:
        line = re.fullmatch(rf"{path}, line (\d+): .+: put back what the harness wrote there", str(error))
        assert line and min(begin, len(whole)) < sum(
            map(len, path.read_bytes().splitlines(keepends=True)[: int(line[1])])
        )


@pytest.mark.parametrize(
    "old, new, mistake",
    [
        ('"cell": "b"', '"cell": 7', "cell: should be a valid string"),
        ('"outcome": "completed"', '"outcome": "won"', "outcome: should be 'completed' or 'failed'"),
        ('"reason": "", ', "", "reason: missing"),
        ('{"cell"', '["cell"', "no JSON (expected `,` or `]`)"),
    ],
)
def test_an_edited_line_is_named(tmp_path: Path, old: str, new: str, mistake: str) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    for name in "abc":
        journal.append(entry(name))
    lines = journal.path.read_text().splitlines(keepends=True)
    journal.path.write_text(lines[0] + lines[1].replace(old, new) + lines[2])
    with pytest.raises(DamagedFile) as error:
        Journal(journal.path)
    assert str(error.value) == f"{journal.path}, line 2: {mistake}: put back what the harness wrote there"


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
