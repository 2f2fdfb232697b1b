"""Tables for the terminal, of rows of text, which lose no word and no state in a narrow one."""

from collections.abc import Sequence

from rich.table import Column, Table

from harness.output.reporting import SafeConsole, in_lines

WORD_MAX = 24  # characters of a word of a table that are not broken
FRAME = 3  # of a column of a table


def print_table(console: SafeConsole, rows: Sequence[Sequence[str]], *, title: str = "") -> None:
    """Print rows, the first of which has the column names. A cell may have several lines.

    No word is broken, unless it is very long. Where a terminal is too narrow for that, columns are left out, from the
    last but one on: the first names a row, and the last has its state.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(len(word) for text in column for word in (text.split() or [""])) for column in columns]
    widths[1:] = [min(width, WORD_MAX) for width in widths[1:]]
    widths[0] = max(widths[0], min(max(map(len, columns[0])), WORD_MAX))  # a name stays in its line
    kept = list(range(len(columns)))
    while (spare := console.width - 1 - sum(FRAME + widths[number] for number in kept)) < 0 and len(kept) > 2:
        del kept[-2]
    lines = {
        number: max(len(line) for text in columns[number] for line in (text.splitlines() or [""])) for number in kept
    }
    while spare > 0 and (narrow := [number for number in kept if widths[number] < lines[number]][:spare]):
        for number in narrow:
            widths[number] += 1
        spare -= len(narrow)
    table = Table(*(Column(rows[0][number], width=widths[number], overflow="fold") for number in kept))
    for row in rows[1:]:
        table.add_row(*(in_lines(row[number]) for number in kept))
    if title:
        console.print(title)
    console.print(table)
    if left_out := [name for number, name in enumerate(rows[0]) if number not in kept]:
        console.print(f"not shown in so narrow a terminal: {'; '.join(left_out)}")
