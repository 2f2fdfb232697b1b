"""Cells: five axes and their bounds, the paper's test matrix (table 1), and the names, selection and order of cells."""

from __future__ import annotations

import contextlib
import difflib
import fnmatch
import itertools
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.definitions.units import parse_size
from harness.failures import UsageFailure

# The paper's values; a run may have others (`harness.files.matrix_file`).
INITIATORS = (1, 2, 3)
THREADS = (1, 2, 3, 4, 5, 10, 15, 20, 30, 40, 50)
DIALOG_RATIOS = (1, 150)
PAYLOADS_BYTES = (100, 1024, 4096, 8192)
# No container runs SQL Server 2005 or 2008, so the sqlserver lab has two versions of its own.
PAPER_VERSIONS = ("2005", "2008")

# What an axis can have at most. Initiators: also those of the lab.
INITIATORS_MAX = 16
THREADS_MAX = 1000  # native threads of one process, each with a connection
RATIO_MAX = 1000
PAYLOAD_BYTES_MIN = 32  # the header by which each message is accounted for (`load.payload`)
PAYLOAD_BYTES_MAX = 1024**2  # each thread holds a body
CELLS_MAX = 10_000
IDS_LISTED = 8  # where a pattern matches none of so few cells

Pair = tuple[str, int, int, int]

_CELL_ID = re.compile(r"i(\d+)-t(\d+)-r([1-9]\d*)-p(\d+)-v(\d+)")


def bounds(initiators_max: int = INITIATORS_MAX) -> Mapping[str, range]:
    """What a cell may have on each axis but the version, in a lab with so many initiators."""
    return {
        "initiators": range(1, initiators_max + 1),
        "threads": range(1, THREADS_MAX + 1),
        "dialog_ratio": range(1, RATIO_MAX + 1),
        "payload_bytes": range(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX + 1),
    }


def axis_value(name: str, text: object, initiators_max: int = INITIATORS_MAX) -> int:
    """The value of an axis as a user writes it, such as `500` or, of a payload, `4 KB`; raises ValueError."""
    value, valid = None, bounds(initiators_max)[name]
    with contextlib.suppress(ValueError):
        value = parse_size(text) if name == "payload_bytes" else int(str(text))
    if value is None or value not in valid:
        raise ValueError(f"{name.replace('_', ' ')} {text!r} is not valid: {valid[0]:,} to {valid[-1]:,}")
    return value


def which_dialogs(dialog_ratio: int) -> str:
    """Which dialogs a dialog ratio uses: `every dialog`, `every 2nd dialog`, `every 150th dialog`."""
    if dialog_ratio == 1:
        return "every dialog"
    ending = "th" if dialog_ratio // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(dialog_ratio % 10, "th")
    return f"every {dialog_ratio}{ending} dialog"


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
    def dialogs(self) -> int:
        """How many dialogs an initiator must have begun: the last thread sends on the last of them."""
        return self.threads * self.dialog_ratio

    @property
    def group(self) -> tuple[str, int]:
        """The axes that are expensive to change: cells of one group share instances and a pool of dialogs."""
        return (self.server_version, self.initiators)

    @property
    def pair(self) -> Pair:
        """The axes but for the dialog ratio: cells of one pair differ only in which dialogs they use."""
        return (self.server_version, self.initiators, self.threads, self.payload_bytes)

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

    @property
    def visit(self) -> Visit:
        return self

    @property
    def arrangement(self) -> None:
        """The lab's."""
        return None

    def folder(self, results: Path) -> Path:
        """Return the folder of the raw records: the run's."""
        return results


def all_cells(
    versions: Sequence[str] = PAPER_VERSIONS,
    *,
    initiators_max: int = INITIATORS[-1],
    ratios: Sequence[int] = DIALOG_RATIOS,
) -> list[Cell]:
    """The whole matrix in the order of the axes: 528 cells for two versions, three initiators and two dialog ratios."""
    return [
        Cell(version, initiators, ratio, threads, payload)
        for version, initiators, ratio, threads, payload in itertools.product(
            versions, INITIATORS[:initiators_max], ratios, THREADS, PAYLOADS_BYTES
        )
    ]


def select(cells: Sequence[Cell], patterns: Iterable[str]) -> list[Cell]:
    """The cells whose id matches a shell pattern, in the order given; all of them without patterns.

    A pattern may omit the end of the id: `i1-t5` means `i1-t5-*`. Raises UnknownCell for a pattern without a match.
    """
    by_id = {cell.id: cell for cell in cells}
    wanted_ids: set[str] = set()
    patterns = list(patterns)
    for pattern in patterns:
        matches = matching(by_id, pattern)
        if not matches:
            ids = f"{nearest_ids(by_id, pattern)}; harness plan --list prints all cell ids"
            if len(by_id) <= IDS_LISTED:
                ids = f"; there are {', '.join(by_id)}"
            raise UnknownCell(f"no cell matches {pattern!r}{ids}")
        wanted_ids.update(matches)
    return [cell for cell in cells if not patterns or cell.id in wanted_ids]


def excluding(cells: Sequence[Cell], patterns: Iterable[str]) -> list[Cell]:
    """The cells whose id matches none of the patterns, which are those of `select`."""
    ids = [cell.id for cell in cells]
    unwanted = {name for pattern in patterns for name in matching(ids, pattern)}
    return [cell for cell in cells if cell.id not in unwanted]


def matching(ids: Iterable[str], pattern: str) -> list[str]:
    """The ids that match a shell pattern, or that begin so."""
    return fnmatch.filter(ids, pattern) or fnmatch.filter(ids, f"{pattern}-*")


def nearest_ids(ids: Iterable[str], pattern: str) -> str:
    """`; nearest: ...` with the ids, or their first parts, that are most like a pattern without a match; or nothing."""
    parts = pattern.count("-") + 1
    heads = dict.fromkeys("-".join(name.split("-")[:parts]) for name in ids)
    close = difflib.get_close_matches(pattern, heads, n=3, cutoff=0.3)
    return f"; nearest: {', '.join(close)}" if close else ""


def sweep_order(cells: Sequence[Cell], seed: int, repeats: int = 1, *, interleaved: bool = False) -> list[Visit]:
    """The visits of a sweep in the order in which it makes them: one block after another."""
    blocks = (block_order(cells, seed, block, interleaved=interleaved) for block in range(1, repeats + 1))
    return list(itertools.chain.from_iterable(blocks))


def block_order(cells: Sequence[Cell], seed: int, block: int, *, interleaved: bool = False) -> list[Visit]:
    """The visits of one block: each cell once, in an order that depends only on the seed and the block.

    The cells of a pair run directly one after another. Which dialog ratio is first is random in the first block and
    rotates from block to block, so that each is first equally often, give or take one. The groups (version, initiators)
    follow one another in random order, because each has its own pool of dialogs, and so do the pairs of a group.

    `interleaved` is for a testbed that holds the instances of all versions at a time: the pairs of all versions at a
    point of the matrix follow one another. Else all groups of a version do.
    """

    def place(*values: object) -> float:
        return random.Random(f"{seed} {block} {values}").random()

    def key(pair: Pair) -> tuple[float, ...]:
        version, initiators, *_ = pair
        held = None if interleaved else version
        return (place(held), place(held, initiators), place(held, *pair[1:]), place(*pair))

    by_pair: dict[Pair, list[Cell]] = {}
    for cell in sorted(cells):
        by_pair.setdefault(cell.pair, []).append(cell)
    return [Visit(cell, block) for pair in sorted(by_pair, key=key) for cell in _rotated(by_pair[pair], seed, block)]


def _rotated(cells: Sequence[Cell], seed: int, block: int) -> list[Cell]:
    """The cells of a pair in the order of a block."""
    ordered = list(cells)
    random.Random(f"{seed} {cells[0].pair}").shuffle(ordered)
    first = (block - 1) % len(ordered)
    return ordered[first:] + ordered[:first]


def label(cell: str, block: int) -> str:
    """Name a cell in a block to the user: `i1-t1-r1-p100-v2008`, or `... (block 2)` from the second on."""
    return cell if block == 1 else f"{cell} (block {block})"
