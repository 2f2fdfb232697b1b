"""The cells of a sweep, their groups, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.matrix import INITIATORS, Cell, all_cells, quick_slice, select, sweep_order
from harness.reporting import duration
from harness.settings import RunSettings, Settings


@dataclass(frozen=True)
class Overhead:
    """The time that a lab takes beside settling and measuring."""

    cell_s: float
    drain_s: float
    group_s: float
    dialogs_per_s: float
    version_s: float
    is_measured: bool


OVERHEAD = {
    # Measured on two processors; the journal of a sweep has the times of your machine.
    "embedded": Overhead(cell_s=0.25, drain_s=0.2, group_s=1.5, dialogs_per_s=1800.0, version_s=0.5, is_measured=True),
    # Not measured yet: cautious assumptions.
    "sqlserver": Overhead(
        cell_s=1.0, drain_s=2.0, group_s=10.0, dialogs_per_s=1000.0, version_s=60.0, is_measured=False
    ),
}
ASK_FROM_S = 3600.0


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


def chosen_cells(settings: RunSettings, *, initiators_max: int = INITIATORS[-1]) -> list[Cell]:
    """The cells that the settings select on a lab with so many initiators, in the order in which they run."""
    cells = select(all_cells(settings.server_versions, initiators_max=initiators_max), settings.cells)
    if settings.quick:
        slice_ = [cell for cell in quick_slice(settings.server_versions) if cell.initiators <= initiators_max]
        cells = [cell for cell in cells if cell in set(slice_)] if settings.cells else slice_
    return sweep_order(cells, settings.seed)


def groups(cells: Sequence[Cell]) -> list[Group]:
    """The groups in the order in which they run."""
    found: dict[tuple[str, int, int], list[Cell]] = {}
    for cell in cells:
        found.setdefault(cell.group, []).append(cell)
    return [Group(*key, len(members), max(cell.threads for cell in members)) for key, members in found.items()]


def estimate_s(settings: Settings, cells: Sequence[Cell]) -> float:
    overhead = OVERHEAD[settings.lab]
    each = settings.measure + settings.settle + overhead.drain_s + overhead.cell_s
    built = groups(cells)
    return (
        len(cells) * each
        + sum(group.dialogs for group in built) / overhead.dialogs_per_s
        + len(built) * overhead.group_s
        + len({cell.server_version for cell in cells}) * overhead.version_s
    )


def lines(settings: Settings, cells: Sequence[Cell], *, list_cells: bool) -> Iterator[str]:
    built = groups(cells)
    dialogs = sum(group.dialogs for group in built)
    yield f"cells: {len(cells)}, each measured for {settings.measure:g} s after at most {settings.settle:g} s to settle"
    yield f"groups of cells that share instances and dialogs: {len(built)}"
    yield f"dialogs to build: {dialogs:,}, at most {max((group.dialogs for group in built), default=0):,} at once"
    basis = "" if OVERHEAD[settings.lab].is_measured else " (overhead beside settling and measuring is assumed)"
    yield f"time: about {duration(estimate_s(settings, cells))} on the {settings.lab} lab{basis}"
    if list_cells:
        yield from (cell.id for cell in cells)
