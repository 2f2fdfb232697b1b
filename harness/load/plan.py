"""What the clients are told and what they report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.failures import MachineFailure
from harness.load.health import GeneratorHealth
from harness.matrix import Cell


class LoadError(MachineFailure):
    """The clients could not do what was asked; the message says which part and why, in one line."""


@dataclass(frozen=True, slots=True)
class CellPlan:
    """One attempt of one cell. `connection_strings` holds one per initiator, with the initiator's database; `handles`
    the dialogs in use of each, one for each thread or more: a test client may send and look at nothing."""

    cell: Cell
    attempt: int
    run: int  # goes into every message's header
    connection_strings: Sequence[str] = field(repr=False)
    handles: Sequence[Sequence[str]] = field(repr=False)
    results: Path

    def __post_init__(self) -> None:
        assert len(self.connection_strings) == len(self.handles) == self.cell.initiators
        for number, handles in enumerate(self.handles, start=1):
            if len(handles) < self.cell.threads:
                raise LoadError(f"initiator {number} has {len(handles)} dialogs for {self.cell.threads} threads")


@dataclass(frozen=True, slots=True)
class Progress:
    """The newest report of each worker added up: counts ten times a second, rate and health twice."""

    sent: int
    calls_per_s: float
    failed_calls: int
    running_threads: int
    health: Sequence[GeneratorHealth] = ()
    counted_at_ns: int = 0  # when the workers counted `sent`, their mean; 0 before the first report


@dataclass(frozen=True, slots=True)
class LoadReport:
    """A cell seen from the clients. The `calls` files hold every call; this holds what the books need."""

    started_at_ns: int  # the barrier opened (the first worker's)
    stopped_at_ns: int  # the last thread returned from its last call
    sent: dict[tuple[int, int], int]  # (initiator, thread) → calls that succeeded
    failed_calls: int
    errors: Sequence[tuple[str, int]]  # text of the ODBC error and how often, most frequent first
    problems: Sequence[str]  # threads that gave up or never returned; any of them makes the cell's numbers doubtful
    health: Sequence[GeneratorHealth]

    @property
    def sent_messages(self) -> int:
        return sum(self.sent.values())
