"""What an item of a run has beside its cell: the workload, on which dialogs it is sent, and when it is received."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict, Field

from harness.definitions.matrix import Cell, Visit
from harness.files.workload_file import Workload


class LabUse(BaseModel):
    """Which of the lab's dialogs clients use, and when the target receives.

    A workload whose procedure begins a dialog for each message uses none of the lab's.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    conversations: Literal["one", "one_per_thread"]  # of an initiator
    dialog_ratio: Annotated[int, Field(ge=1)]
    warm_up: bool
    outside_readers: bool = False  # programs that an activator starts receive, not the activation procedure
    batch: bool = False  # messages gather in the target's queue, and are received after the clients have stopped


class Pool(NamedTuple):
    """Dialogs that exist before clients send: of how many initiators, how many of each, warmed up."""

    initiators: int
    dialogs: int  # 0: clients begin their own
    warm_up: bool = True
    used: tuple[tuple[int, int], ...] = ()  # dialog ratios with their threads: only these are warmed up; (): all


def used_dialogs(cells: Sequence[Cell]) -> tuple[tuple[int, int], ...]:
    """Return the dialog ratios of cells, each with the most threads that an initiator has with it."""
    by_ratio: dict[int, int] = {}
    for cell in cells:
        by_ratio[cell.dialog_ratio] = max(cell.threads, by_ratio.get(cell.dialog_ratio, 0))
    return tuple(sorted(by_ratio.items()))


class Arrangement(LabUse):
    """What is sent, what is done with it, and on which dialogs."""

    workload: Workload

    def used_dialogs(self, threads: int) -> int:
        """Count the dialogs begun beforehand on which the threads of an initiator send."""
        if self.workload.client.begins_dialogs:
            return 0
        return 1 if self.conversations == "one" else threads

    def pool(self, cell: Cell) -> Pool:
        return Pool(cell.initiators, self.used_dialogs(cell.threads) * self.dialog_ratio, self.warm_up)

    @property
    def spends_its_dialogs(self) -> bool:
        """Whether the next item needs new ones: these are warm or gone afterwards, or their messages stay behind."""
        return not self.warm_up or self.workload.client.begins_dialogs or self.workload.queue.retention

    @property
    def columns(self) -> dict[str, Any]:
        """Its settings, as the table of techniques has them."""
        target = self.workload.target
        return {
            "conversations": "one_per_message" if self.workload.client.begins_dialogs else self.conversations,
            "dialog_ratio": self.dialog_ratio,
            "warm_up": self.warm_up,
            "receive_top": target.receive_top,
            "receive_timeout_ms": target.receive_timeout_ms,
            "max_queue_readers": target.max_queue_readers,
        }


class Named(Protocol):
    """An item of a sweep as its journal names it."""

    @property
    def id(self) -> str: ...

    @property
    def block(self) -> int: ...


class Item(Named, Protocol):
    """What is attempted: a cell under an arrangement, in a block. Its records lie in a folder."""

    @property
    def cell(self) -> Cell: ...

    @property
    def visit(self) -> Visit: ...

    @property
    def arrangement(self) -> Arrangement | None:
        """None: the lab's workload, on dialogs that all cells of a group share."""
        ...

    def folder(self, results: Path) -> Path: ...
