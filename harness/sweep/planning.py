"""What a sweep would do, and how long it would take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.matrix import Cell, all_cells, quick_slice, select, sweep_order
from harness.settings import Settings
from harness.sweep.reporting import duration

# What the embedded lab took on two processors; a sweep's journal says what it takes on yours.
CELL_OVERHEAD_S = 0.25
DRAIN_S = 0.2
GROUP_OVERHEAD_S = 1.5
DIALOGS_PER_S = 1800.0


@dataclass(frozen=True)
class Group:
    """Cells that share instances and dialog pools."""

    server_version: str
    initiators: int
    dialog_ratio: int
    cells: int
    threads: int  # the most that any of its cells has, per initiator

    @property
    def dialogs(self) -> int:
        return self.initiators * self.threads * self.dialog_ratio


def chosen_cells(settings: Settings) -> list[Cell]:
    """The cells that these settings select, in the order in which they run."""
    cells = select(all_cells(), settings.cells)
    if settings.quick:
        slice_ = set(quick_slice())
        cells = [cell for cell in cells if cell in slice_] if settings.cells else quick_slice()
    return sweep_order(cells, settings.seed)


def groups(cells: Sequence[Cell]) -> list[Group]:
    """The groups in the order in which they run."""
    found: dict[tuple[str, int, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.group, []).append(cell)
    return [Group(*key, len(members), max(cell.threads for cell in members)) for key, members in found.items()]


def estimate_s(settings: Settings, cells: Sequence[Cell]) -> float:
    each = settings.measure + settings.settle + DRAIN_S + CELL_OVERHEAD_S
    built = groups(cells)
    return len(cells) * each + sum(group.dialogs for group in built) / DIALOGS_PER_S + len(built) * GROUP_OVERHEAD_S


def lines(settings: Settings, *, list_cells: bool) -> Iterator[str]:
    cells = chosen_cells(settings)
    built = groups(cells)
    dialogs = sum(group.dialogs for group in built)
    yield f"cells: {len(cells)}, each measured for {settings.measure:g} s after at most {settings.settle:g} s to settle"
    yield f"groups that share instances and dialogs: {len(built)}"
    yield f"dialogs to build: {dialogs:,}, at most {max((group.dialogs for group in built), default=0):,} at once"
    yield f"time: about {duration(estimate_s(settings, cells))} on the {settings.lab} lab"
    if list_cells:
        yield from (cell.id for cell in cells)
