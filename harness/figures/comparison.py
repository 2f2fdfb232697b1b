"""Compare two runs: figures side by side, and ratios with verdicts, for all cells and for each that both completed."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from harness.claims.judgement import over_blocks
from harness.definitions.inference import no_interval
from harness.definitions.units import counted
from harness.figures import gate, side_by_side
from harness.figures.build import Drawing, write
from harness.figures.circumstances import forbidding, is_pair, remarkable
from harness.figures.comparison_document import ComparisonDocument
from harness.figures.gain import of_one_ratio
from harness.figures.gate import Gate
from harness.figures.parts import percent, short
from harness.figures.ratios import RATE, Design, Group, by_cell, by_version, common, groups, pair
from harness.figures.reduced_run import Run, footer, listed, origin, read
from harness.files import certificate, journal
from harness.files.certificate import Certificate
from harness.files.records import NotWritable, ResultsError, State
from harness.output.reporting import Reporter, SafeConsole
from harness.output.tables import print_table

ROWS_PRINTED = 24
THRESHOLD = 0.05


@dataclass(frozen=True)
class Comparison:
    """What became of a comparison: files, tables, and what is slower in b by more than the threshold, or might be.

    `cells` has a row per common cell, as `ratios.csv`: of each quantity its value in a and b, their ratio with its
    interval, and the verdict. `verdicts` has a row for all cells together, and per number of initiators and dialog
    ratio: ratio of processed messages per second, interval, verdict.
    """

    files: list[Path]
    gate: Gate
    cells: pd.DataFrame
    verdicts: pd.DataFrame
    threshold: float

    def document(self) -> ComparisonDocument:
        """What other programs read of it: `as_json`, `as_junit`, `as_markdown`."""
        return ComparisonDocument.of(
            self.cells, self.verdicts, self.gate, conclusion=self.conclusion, threshold=self.threshold
        )

    @property
    def conclusion(self) -> str:
        """What b is beside a, over all cells that count in both, in a sentence."""
        if self.verdicts.empty:
            return "No cell counts in both, so nobody can tell which is faster."
        whole = self.verdicts.iloc[0]
        number, than = short(100 * abs(whole.ratio - 1)), "fewer" if whole.ratio < 1 else "more"
        change = f"b processes {number} % {than} messages than a"
        if pd.isna(whole.ratio_low):
            return f"{change} ({no_interval(int(whole.blocks))}): nobody can tell."
        low, high = (percent(100 * (end - 1)) for end in (whole.ratio_low, whole.ratio_high))
        return f"{change} (95 %: {low} to {high}, {counted(int(whole.blocks), 'block')}): {whole.verdict}."


_CELLS_NAMED = 3
# What to change where cells of a state are measured again.
_AGAIN = {
    State.DISTURBED: "without what disturbed them (state_reason in the table cells)",
    State.STARVED: "with clients that have more processors",
    State.BEHIND: "with a longer --settle",
    State.UNSETTLED: "with a longer --settle and --measure",
}


def compare(
    a: Path,
    b: Path,
    output: Path | None = None,
    *,
    threshold: float = THRESHOLD,
    despite_differences: bool = False,
    console: SafeConsole,
    progress: Reporter | None = None,
) -> Comparison:
    """Draw figures of `a` and `b` side by side, write and print the ratios (b divided by a) with their verdicts.

    A verdict `faster` or `slower` needs a change beyond `threshold`, a part, and an interval without 1. The files go to
    `output`, or to a folder beside the two runs. Cells that only one run completed are left out and counted. Raises
    ResultsError if the runs are the same, have no common cell, or differ in lab, hardware or settings without
    `despite_differences`.
    """
    runs = read(Path(a)), read(Path(b))
    if runs[0].manifest == runs[1].manifest:
        raise ResultsError(f"{a} and {b} are the same run: name two runs")
    forbidden, in_turns = forbidding(*runs), is_pair(*runs)
    if forbidden and not (despite_differences or in_turns):
        raise ResultsError(f"{'. '.join(forbidden)}: --despite-differences compares the runs all the same")
    sides = pair(runs[0].cells, runs[1].cells)
    twins = certificate.find(runs[1].manifest) or certificate.find(runs[0].manifest)
    design = Design(in_turns, twins.variances if twins else None)
    table = by_cell(*sides, threshold, design)
    if table.empty:
        raise ResultsError(f"{a} and {b} have no completed cell in common, whatever the versions: nothing to compare")
    all_groups = groups(*sides, threshold, design)
    folder = Path(output) if output else Path(a).resolve().parent / f"compare-{Path(a).name}-{Path(b).name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        cells = named(table, *runs)
        cells.to_csv(folder / "ratios.csv", index=False)
    except OSError as error:
        raise NotWritable(f"{folder} cannot be written: {error.strerror}") from None
    notes = [
        *version_note(*runs),
        *forbidden,
        *remarkable(*runs),
        *left_out(*runs, table),
        *_design_note(runs[1], design, twins),
    ]
    _print(
        console,
        runs,
        table,
        all_groups,
        notes if all_groups else [*notes, f"No cell counts in both runs: {_uncounted(runs)}"],
    )
    drawn = write(_drawings(runs, table), folder, lambda _: _head(runs), _foot(runs, notes), progress or Reporter())
    judged = gate.judge(*sides, table, all_groups, threshold, _failed(runs[1]))
    return Comparison([folder / "ratios.csv", *drawn], judged, cells, _as_table(all_groups), threshold)


def _design_note(run: Run, design: Design, twins: Certificate | None) -> list[str]:
    """Say which variance the intervals have beside that of the blocks; nothing of models, which repeat exactly."""
    if design.in_turns:
        return ["The runs were made in turns, so each block of b is compared with that of a"]
    if run.is_model:
        return []
    if twins is None:
        return ["What differs between runs as wholes is unknown, and in no interval: harness aa measures it"]
    return [f"The intervals have what differs between runs as wholes: {twins.words}"]


def _failed(run: Run) -> frozenset[str]:
    """Return the ids of the cells that failed and were completed in no block."""
    entries = list(journal.read(run.folder / journal.NAME))
    completed = {entry.cell for entry in entries if entry.outcome == "completed"}
    return frozenset(entry.cell for entry in entries if entry.cell not in completed)


def _uncounted(runs: tuple[Run, Run]) -> str:
    """Say which measurements do not count, and how to measure again."""
    sentences, states = [], set()
    for name, run in zip("ab", runs, strict=True):
        for state, cells in run.cells[~run.cells.valid].groupby("state"):
            ids = list(dict.fromkeys(cells.cell_id))
            ids_shown = ", ".join(ids[:_CELLS_NAMED]) + (", ..." if len(ids) > _CELLS_NAMED else "")
            sentences.append(f"{len(cells)} of {len(run.cells)} measurements of {name} were {state} ({ids_shown})")
            states.add(State(state))
    repeat_words = " and ".join(words for state, words in _AGAIN.items() if state in states)
    return (
        f"{'; '.join(sentences)}: measure again {repeat_words}"
        if sentences
        else "their rates are 0: see whether anything was sent"
    )


def _as_table(all_groups: Sequence[Group]) -> pd.DataFrame:
    rows = [
        (group.name, group.cells, rate.blocks, rate.ratio, rate.low, rate.high, str(group.verdict))
        for group in all_groups
        for rate in [group.ratios[RATE]]
    ]
    return pd.DataFrame(rows, columns=["group", "cells", "blocks", "ratio", "ratio_low", "ratio_high", "verdict"])


def version_note(a: Run, b: Run) -> list[str]:
    """Say in one line what is compared if the runs have no common cell of the same version; else nothing."""
    if by_version(a.cells, b.cells):
        return []
    means = ["the mean of " * (len(run.versions) > 1) + listed(run.versions) for run in (a, b)]
    return [f"The runs have no version in common: each cell of a is {means[0]}, of b {means[1]}"]


def named(table: pd.DataFrame, a: Run, b: Run) -> pd.DataFrame:
    """Add lab, run and load of each side in front, because versions alone would read as SQL Server's."""
    sides = (("a", a), ("b", b))
    origin = {
        f"{name}_{side}": value
        for side, run in sides
        for name, value in (("lab", run.lab), ("run_id", run.run_id), ("load_model", run.load_model))
    }
    return table.assign(**origin)[[*origin, *table.columns]]


def left_out(a: Run, b: Run, table: pd.DataFrame) -> list[str]:
    """Return a line for each run with cells that the other run lacks."""
    notes = []
    for name, cells in zip("ab", pair(a.cells, b.cells), strict=True):
        missing = sorted(set(cells.cell_id) - set(table.cell_id))
        if missing:
            ids_shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            notes.append(f"left out: {counted(len(missing), 'cell')} that only {name} completed ({ids_shown})")
    return notes


def _drawings(runs: tuple[Run, Run], table: pd.DataFrame) -> dict[str, Drawing]:
    same_version = by_version(runs[0].cells, runs[1].cells)
    merged = [over_blocks(run) for run in runs]
    cells = common(merged[0].cells, merged[1].cells, same_version=same_version)
    repeats = common(runs[0].cells, runs[1].cells, same_version=same_version)
    gains = tuple(map(of_one_ratio, common(runs[0].gain, runs[1].gain, same_version=same_version)))
    names = ("a", "b")
    drawings: dict[str, Drawing] = {
        f"throughput-{initiators}-initiator{'s' * (initiators > 1)}": functools.partial(
            side_by_side.throughput, cells, repeats, names, initiators
        )
        for initiators in sorted(set(table.initiators.tolist()))
    }
    drawings["gain"] = functools.partial(side_by_side.gain, gains, names)
    drawings["shape"] = functools.partial(side_by_side.shape, cells, names)
    drawings["ratio-map"] = functools.partial(side_by_side.ratio_map, table)
    return drawings


def _head(runs: tuple[Run, Run]) -> str:
    return "   ·   ".join(
        f"{name}: {origin(run.lab, run.load, run.versions)}" for name, run in zip("ab", runs, strict=True)
    )


def _foot(runs: tuple[Run, Run], notes: Sequence[str]) -> list[str]:
    lines = []
    for name, run in zip("ab", runs, strict=True):
        lab, identity, machine = footer(run)
        lines += [f"{name} · {identity}", f"{lab} · {machine}"]
    if lines[1] == lines[3]:
        lines = [lines[0], lines[2], lines[3]]
    return [*lines, *notes]


def _print(
    console: SafeConsole, runs: tuple[Run, Run], table: pd.DataFrame, all_groups: Sequence[Group], notes: Sequence[str]
) -> None:
    for name, run in zip("ab", runs, strict=True):
        lab = f"{run.lab} lab{', a model' if run.is_model else ''}"
        blocks = run.cells.block.nunique()
        number = run.cells.cell_id.nunique()
        size = f"{counted(number, 'cell')}{f', {blocks} blocks' if blocks > 1 else ''}"
        console.print(f"{name}: {run.run_id} ({lab}, {run.load}, {size})")
    for note in notes:
        console.print(f"! {note}")
    if all_groups:
        console.print()
        print_table(console, _verdicts(all_groups), title="Messages processed per second, b divided by a")
        console.print()
        print_table(console, _quantities(all_groups), title="Rates and latencies, b divided by a")
        console.print("drained/s: all messages divided by the time until the last was processed")
    console.print()
    _print_cells(console, table)


def _verdicts(all_groups: Sequence[Group]) -> list[list[str]]:
    """List the processed rates: of all cells that count, and by number of initiators and dialog ratio."""
    rows = [["cells", "b/a", "95 % interval", "n", "blocks", "single cells", "verdict"]]
    for group in all_groups:
        rate = group.ratios[RATE]
        rows.append(
            [
                group.name,
                _ratio(rate.ratio),
                _interval(rate.low, rate.high, rate.blocks),
                str(group.cells),
                str(rate.blocks),
                f"{group.lowest:.2f} to {group.highest:.2f}",
                str(group.verdict),
            ]
        )
    return rows


def _quantities(all_groups: Sequence[Group]) -> list[list[str]]:
    """List the other quantities' ratios."""
    columns = {
        "sent_per_s": "sent/s",
        "until_drained_per_s": "drained/s",
        "latency_us_p50": "call p50",
        "latency_us_p95": "call p95",
        "end_to_end_us_p50": "end to end p50",
        "end_to_end_us_p95": "end to end p95",
        "end_to_end_us_p99": "end to end p99",
    }
    columns = {name: heading for name, heading in columns.items() if any(name in group.ratios for group in all_groups)}
    rows = [["cells", *columns.values()]]
    for group in all_groups:
        ratios = (group.ratios.get(name) for name in columns)
        rows.append([group.name, *("-" if estimate is None else _ratio(estimate.ratio) for estimate in ratios)])
    return rows


def _print_cells(console: SafeConsole, table: pd.DataFrame) -> None:
    """Print every cell, or the lowest and highest ratios if there are many cells."""
    ranked = table.sort_values(f"{RATE}_ratio")
    if len(ranked) <= ROWS_PRINTED:
        title, shown = "Messages processed per second, by cell", ranked
    else:
        half = ROWS_PRINTED // 2
        title = f"The {half} lowest and {half} highest ratios of {len(ranked)} cells; all are in ratios.csv"
        shown = pd.concat([ranked.head(half), ranked.tail(half)])
    rows = [["cell", "b/a", "95 % interval", "a", "b", "verdict"]]
    for row in shown.itertuples():
        low, high = row.processed_per_s_ratio_low, row.processed_per_s_ratio_high
        rows.append(
            [
                str(row.cell_id),
                _ratio(row.processed_per_s_ratio) + ("" if row.counts else "*"),
                _interval(low, high, min(row.blocks_a, row.blocks_b)),
                _count(row.processed_per_s_a),
                _count(row.processed_per_s_b),
                str(row.verdict),
            ]
        )
    print_table(console, rows, title=title)
    uncounted = "" if shown.counts.all() else "; * the cell of a or b does not count"
    console.print(
        "an interval is that of its cell alone; verdicts are corrected for the number of cells (Benjamini and Hochberg)"
        f"{uncounted}"
    )


def _count(value: Any) -> str:
    return f"{value:,.0f}"


def _ratio(value: Any) -> str:
    return "-" if pd.isna(value) else f"{value:.3f}"


def _interval(low: Any, high: Any, blocks: int) -> str:
    if not pd.isna(low):
        return f"{low:.2f} to {high:.2f}"
    return no_interval(blocks) if blocks else "-"
