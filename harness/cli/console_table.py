"""Tables of text on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

# Without a terminal 80 columns are assumed, in which a table of sentences is not readable.
WIDTH_OF_A_FILE = 140


def console() -> Console:
    """Standard output, wide enough for a table."""
    found = Console(highlight=False)
    if not found.is_terminal:
        found.width = max(found.width, WIDTH_OF_A_FILE)
    return found


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Prints rows, the first of which has the column names."""
    table = Table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    console().print(table)
