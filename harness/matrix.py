"""The test matrix (the paper, table 1): five axes, 528 cells, and the names, selection and order of cells."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.failures import UsageFailure

INITIATORS = (1, 2, 3)
THREADS = (1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50)
DIALOG_RATIOS = (1, 150)
PAYLOADS_BYTES = (100, 1024, 4096, 8192)
# No container runs SQL Server 2005 or 2008, so the sqlserver lab has two versions of its own.
PAPER_VERSIONS = ("2005", "2008")

_CELL_ID = re.compile(r"i(\d+)-t(\d+)-r(\d+)-p(\d+)-v(\d+)")


class UnknownCell(UsageFailure):
    """A pattern without a match; the message names the nearest cell ids."""


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One combination of the axes. `threads` are per initiator; with `dialog_ratio` 150 every 150th dialog is used."""

    server_version: str
    initiators: int
    dialog_ratio: int
    threads: int
    payload_bytes: int

    @property
    def id(self) -> str:
        return f"i{self.initiators}-t{self.threads}-r{self.dialog_ratio}-p{self.payload_bytes}-v{self.server_version}"

    @property
    def total_threads(self) -> int:
        return self.initiators * self.threads

    @property
    def group(self) -> tuple[str, int, int]:
        """The axes that are expensive to change: cells of one group share instances and dialog pools."""
        return (self.server_version, self.initiators, self.dialog_ratio)

    @classmethod
    def parse(cls, cell_id: str) -> Cell:
        """The cell of an id such as `i3-t50-r150-p8192-v2008`; raises ValueError."""
        match = _CELL_ID.fullmatch(cell_id)
        if match is None:
            expected = "i<initiators>-t<threads>-r<ratio>-p<bytes>-v<version>"
            raise ValueError(f"invalid cell id {cell_id!r}: write {expected}")
        initiators, threads, ratio, payload = (int(text) for text in match.groups()[:4])
        return cls(match[5], initiators, ratio, threads, payload)


@dataclass(frozen=True, slots=True, order=True)
class Visit:
    """A cell in a block, which is one pass over the selected cells: the item of a sweep."""

    cell: Cell
    block: int = 1

    @property
    def id(self) -> str:
        """The id of the cell; with the block it names the visit."""
        return self.cell.id


def all_cells(versions: Sequence[str] = PAPER_VERSIONS, *, initiators_max: int = INITIATORS[-1]) -> list[Cell]:
    """The whole matrix in the order of the axes: 528 cells for two versions and three initiators."""
    return [
        Cell(version, initiators, ratio, threads, payload)
        for version, initiators, ratio, threads, payload in itertools.product(
            versions, INITIATORS[:initiators_max], DIALOG_RATIOS, THREADS, PAYLOADS_BYTES
        )
    ]


def select(cells: Sequence[Cell], patterns: Iterable[str]) -> list[Cell]:
    """The cells whose id matches a shell pattern, in the order given; all of them without patterns.

    A pattern may omit the end of the id: `i1-t5` means `i1-t5-*`. Raises UnknownCell for a pattern without a match.
    """
    by_id = {cell.id: cell for cell in cells}
    wanted: set[str] = set()
    patterns = list(patterns)
    for pattern in patterns:
        found = fnmatch.filter(by_id, pattern) or fnmatch.filter(by_id, f"{pattern}-*")
        if not found:
            close = difflib.get_close_matches(pattern, by_id, n=3, cutoff=0.3)
            hint = f"; nearest: {', '.join(close)}" if close else ""
            raise UnknownCell(f"no cell matches {pattern!r}{hint}; harness plan --list prints all cell ids")
        wanted.update(found)
    return [cell for cell in cells if not patterns or cell.id in wanted]


def sweep_order(cells: Sequence[Cell], seed: int, repeats: int = 1) -> list[Visit]:
    """The visits of a sweep in the order in which it makes them: one block after another."""
    return [Visit(cell, block) for block in range(1, repeats + 1) for cell in _in_block(cells, seed, block)]


def _in_block(cells: Sequence[Cell], seed: int, block: int) -> list[Cell]:
    """The cells in the order of one block.

    Groups (version, initiators, ratio) stay together, because a change of group rebuilds the dialog pools. Versions and
    initiators are shuffled, the ratios of one (version, initiators) are neighbours in random order, and cells are
    shuffled inside a group. The two groups of a pair have the same inner order, so that a cell and its partner of the
    other ratio run at the same distance from each other.
    """
    rng = random.Random(f"{seed} {block}")
    neighbours = sorted({(cell.server_version, cell.initiators) for cell in cells})
    rng.shuffle(neighbours)
    ordered: list[Cell] = []
    for version, initiators in neighbours:
        chosen = [cell for cell in cells if (cell.server_version, cell.initiators) == (version, initiators)]
        points = sorted({(cell.threads, cell.payload_bytes) for cell in chosen})
        rng.shuffle(points)
        ratios = sorted({cell.dialog_ratio for cell in chosen})
        rng.shuffle(ratios)
        by_place = {(cell.dialog_ratio, cell.threads, cell.payload_bytes): cell for cell in chosen}
        ordered.extend(
            by_place[ratio, threads, payload]
            for ratio in ratios
            for threads, payload in points
            if (ratio, threads, payload) in by_place
        )
    return ordered


def quick_slice(versions: Sequence[str] = PAPER_VERSIONS) -> list[Cell]:
    """24 cells that span every axis: `make quick`.

    All initiators × {1, 10, 50} threads × both ratios; payloads and versions alternate so that every value occurs.
    """
    corners = [(1, PAYLOADS_BYTES[0]), (10, PAYLOADS_BYTES[1]), (50, PAYLOADS_BYTES[2]), (50, PAYLOADS_BYTES[3])]
    return [
        Cell(versions[(initiators + place) % len(versions)], initiators, ratio, threads, payload)
        for initiators in INITIATORS
        for place, (threads, payload) in enumerate(corners)
        for ratio in DIALOG_RATIOS
    ]
