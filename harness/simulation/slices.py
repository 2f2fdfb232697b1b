"""Deal cells to workers in slices, balanced by the work they are expected to take.

The cells of one server version and dialog ratio, a group, run in forks of one warmed world, and building a world costs
as much as many cells. So a group is cut into no more slices than the workers need to end at about the same time.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.matrix import INITIATORS, THREADS, Cell
from harness.whitepaper import BASE_DIALOG_RATIO, GAIN_MAX_PERCENT, PEAK_THROUGHPUT

# Expected rates of cells, used for balance only: each thread adds CALLS_PER_S, up to the paper's peaks.
CALLS_PER_S = 180.0
PEAK_PER_S = PEAK_THROUGHPUT[3].value / 3
BASE_PEAK_PER_S = PEAK_PER_S / (1 + GAIN_MAX_PERCENT.value / 100)
# Processor time, as measured on one machine.
MESSAGE_S = 300e-6
CELL_S = 0.2
DIALOG_S = 600e-6
GROUP_S = 3.0
FINEST = 4  # slices a worker


@dataclass(frozen=True)
class Turn:
    """A cell, the number of the attempt, and its expected processor time."""

    cell: Cell
    attempt: int
    work_s: float


@dataclass(frozen=True)
class Slice:
    """Turns of one group for one worker, the longest first."""

    server_version: str
    dialog_ratio: int
    turns: tuple[Turn, ...]

    @property
    def work_s(self) -> float:
        return group_work_s(self.dialog_ratio) + sum(turn.work_s for turn in self.turns)


def cell_work_s(cell: Cell, virtual_s: float) -> float:
    """Expected processor time of a cell of some virtual time."""
    peak = BASE_PEAK_PER_S if cell.dialog_ratio == BASE_DIALOG_RATIO else PEAK_PER_S
    messages_per_s = cell.initiators * min(cell.threads * CALLS_PER_S, peak)
    return CELL_S + virtual_s * messages_per_s * MESSAGE_S


def group_work_s(dialog_ratio: int) -> float:
    """Expected processor time of building a group's warmed world."""
    return GROUP_S + INITIATORS[-1] * THREADS[-1] * dialog_ratio * DIALOG_S


def slices(turns: Sequence[Turn], workers: int) -> list[Slice]:
    """Cut turns into slices, those with the most work first, such that the workers end soonest."""
    cuts = [_cut(turns, workers * parts) for parts in range(1, FINEST + 1)]
    return min(cuts, key=lambda cut: elapsed_s(cut, workers))


def elapsed_s(cut: Sequence[Slice], workers: int) -> float:
    """Time in which the workers compute the slices, each taking the next one when it is free."""
    free_s = [0.0] * workers
    for part in cut:
        heapq.heapreplace(free_s, free_s[0] + part.work_s)
    return max(free_s)


def _cut(turns: Sequence[Turn], parts: int) -> list[Slice]:
    share_s = sum(turn.work_s for turn in turns) / parts
    groups: dict[tuple[str, int], list[Turn]] = {}
    for turn in sorted(turns, key=lambda turn: (-turn.work_s, turn.cell)):
        groups.setdefault((turn.cell.server_version, turn.cell.dialog_ratio), []).append(turn)
    found = [
        Slice(*group, tuple(dealt))
        for group, members in groups.items()
        for dealt in _dealt(members, min(len(members), math.ceil(sum(turn.work_s for turn in members) / share_s)))
    ]
    return sorted(found, key=lambda part: -part.work_s)


def _dealt(turns: Sequence[Turn], hands: int) -> list[list[Turn]]:
    """Deal turns, longest first, each to the hand with the least work."""
    dealt: list[list[Turn]] = [[] for _ in range(hands)]
    least = [(0.0, hand) for hand in range(hands)]
    for turn in turns:
        work_s, hand = least[0]
        dealt[hand].append(turn)
        heapq.heapreplace(least, (work_s + turn.work_s, hand))
    return dealt
