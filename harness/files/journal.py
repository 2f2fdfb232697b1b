"""`journal.jsonl`: one line for each attempt at a cell in a block, on disk before the next attempt begins.

Its last line may be torn: by a crash, or because it is being written.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from harness.files import json_file
from harness.output.safe_text import visible

NAME = "journal.jsonl"


@dataclass(frozen=True)
class Entry:
    """The outcome of one attempt at a cell in a block: a line of the journal."""

    cell: str
    attempt: int  # of this cell in this block: 1; 2 or 3 after a failure, or where it is measured again
    outcome: Literal["completed", "failed"]
    reason: str
    at: str  # ISO 8601, UTC
    run: Annotated[int, Field(ge=0, lt=2**31)]  # the number in the payloads of this attempt
    sent_per_s: float = 0.0
    processed_per_s: float = 0.0
    state: str = ""  # of a completed cell: `records.State`
    state_reason: str = ""  # why it is not valid
    leak: str = ""  # conversations that it has left behind
    phases_s: dict[str, float] = field(default_factory=dict)  # how long each phase of the protocol took
    block: int = 1


_ENTRY = TypeAdapter(Entry)


class Journal:
    """Appends entries; removes a line that could not be written whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()  # so that it is missed where it vanishes
        self.entries = list(read(path))
        length = path.read_bytes().rfind(b"\n") + 1  # of whole lines
        if path.stat().st_size > length:
            os.truncate(path, length)  # a crash tore the last line

    def append(self, entry: Entry) -> None:
        line = visible(json.dumps(asdict(entry), ensure_ascii=False)).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            length = os.fstat(descriptor).st_size
            try:
                written = 0
                while written < len(line):
                    written += os.write(descriptor, line[written:])
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, length)
                raise
        finally:
            os.close(descriptor)
        self.entries.append(entry)

    def completed(self) -> set[tuple[str, int]]:
        """Id and block of each completed cell."""
        return {(entry.cell, entry.block) for entry in self.entries if entry.outcome == "completed"}

    def attempts(self, cell: str, block: int) -> int:
        return sum((entry.cell, entry.block) == (cell, block) for entry in self.entries)

    def next_run(self) -> int:
        return 1 + max((entry.run for entry in self.entries), default=0)


def parse(line: bytes, path: Path, number: int = 1) -> Entry:
    """Return the entry on a line of a file; raises DamagedFile."""
    return json_file.checked(_ENTRY, line, path, first_line=number)


def read(path: Path) -> Iterator[Entry]:
    """Yield the entries of a journal, none if there is no file; raises DamagedFile."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            yield parse(line, path, number)


def completed(path: Path) -> list[Entry]:
    """Return the entry of each completed cell and block of a journal, in the order of the run."""
    entries = {(entry.cell, entry.block): entry for entry in read(path) if entry.outcome == "completed"}
    return list(entries.values())
