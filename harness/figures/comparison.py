"""Compare two runs: figures side by side, and a table of ratios for every cell that both completed.

If both runs have cells of the same version, cells are paired by version. Otherwise, such as SQL Server 2022 and 2025
with the embedded lab's 2005 and 2008, they are paired over the other axes: a cell's quantities are the means over the
versions of its run, as in the figures, and the output says so. A version is never paired with a different one.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from harness.claims.judgement import geometric_mean, of_the_trick, over_blocks
from harness.figures import side_by_side
from harness.figures.build import Drawing, Progress, write
from harness.figures.reduced_run import Run, footer, listed, origin, read
from harness.records import ResultsError
from harness.reporting import to_standard_error

POINT = ["initiators", "threads", "dialog_ratio", "payload_bytes"]
AXES = ["server_version", *POINT]
RATIOS = ("processed_per_s", "sent_per_s", "until_drained_per_s", "latency_us_p50", "latency_us_p95")
ROWS_PRINTED = 24
# The entries of the manifest's `versions` that can change a number.
DECISIVE_VERSIONS = ("python", "odbc_driver", "pyodbc", "locust", "sqlglot")
DECISIVE_SETTINGS = ("dialog_security", "endpoint_encryption")
# The entries of a target's fingerprint that the harness' own machine does not have.
DECISIVE_FACTS = {"server": ("edition", "product_version"), "system": ("cpu_count", "physical_memory_kb")}


def compare(
    a: Path,
    b: Path,
    output: Path | None = None,
    *,
    console: Console | None = None,
    progress: Progress = to_standard_error,
) -> list[Path]:
    """Draw figures of `a` and `b` side by side, write and print the ratios (b divided by a), return the files.

    Without `output` the files go to a folder beside the two runs. Cells that only one run completed are left out and
    counted. Raises ResultsError if the runs have no common cell.
    """
    console = console or Console()
    runs = read(Path(a)), read(Path(b))
    feet = [footer(run) for run in runs]
    runs = over_blocks(runs[0]), over_blocks(runs[1])
    table = ratios(*pair(runs[0].cells, runs[1].cells))
    if table.empty:
        raise ResultsError(f"{a} and {b} have no completed cell in common, whatever the versions: nothing to compare")
    folder = Path(output) if output else Path(a).resolve().parent / f"compare-{Path(a).name}-{Path(b).name}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        named(table, *runs).to_csv(folder / "ratios.csv", index=False)
    except OSError as error:
        raise ResultsError(f"{folder} cannot be written: {error.strerror}") from None
    notes = [*version_note(*runs), *differences(*runs), *left_out(*runs, table)]
    _print(console, runs, table, notes)
    drawn = write(_drawings(runs, table), folder, lambda _: _head(runs), _foot(feet, notes), progress)
    return [folder / "ratios.csv", *drawn]


def by_version(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Return whether the cells of two runs are paired by version."""
    return not set(a.cell_id).isdisjoint(b.cell_id)


def pair(a: pd.DataFrame, b: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the cells of both runs with ids that pair them."""
    return (a, b) if by_version(a, b) else (mean_of_versions(a), mean_of_versions(b))


def mean_of_versions(cells: pd.DataFrame) -> pd.DataFrame:
    """Return one row per point of the matrix with the means over versions; the id names no version."""
    quantities = [name for name in cells.select_dtypes("number") if name not in [*POINT, "total_threads"]]
    merged = cells.groupby([*POINT, "total_threads"], as_index=False).agg(
        dict.fromkeys(quantities, "mean") | {"valid": "all"}
    )
    axes = merged[POINT].astype(str)
    merged["cell_id"] = (
        "i" + axes.initiators + "-t" + axes.threads + "-r" + axes.dialog_ratio + "-p" + axes.payload_bytes
    )
    merged["server_version"] = listed(sorted(cells.server_version.unique()))
    return merged


def common(a: pd.DataFrame, b: pd.DataFrame, *, same_version: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of both tables, cells or gains, that the other table has too."""
    keys = [axis for axis in (AXES if same_version else POINT) if axis in a]
    both = a[keys].merge(b[keys], on=keys, how="inner").drop_duplicates()
    return a.merge(both, on=keys, how="inner"), b.merge(both, on=keys, how="inner")


def version_note(a: Run, b: Run) -> list[str]:
    """Say in one line what is compared if the runs have no common cell of the same version; else nothing."""
    if by_version(a.cells, b.cells):
        return []
    means = ["the mean of " * (len(run.versions) > 1) + listed(run.versions) for run in (a, b)]
    return [f"The runs have no version in common: each cell of a is {means[0]}, of b {means[1]}"]


def ratios(a: pd.DataFrame, b: pd.DataFrame) -> pd.DataFrame:
    """Return one row per common cell: each quantity of `a`, of `b`, and b divided by a."""
    needed = ["cell_id", *AXES, "total_threads", "valid", *RATIOS]
    other = ["cell_id", "server_version", "valid", *RATIOS]
    both = a[needed].merge(b[other], on="cell_id", suffixes=("_a", "_b"), how="inner")
    both["valid"] = both.valid_a & both.valid_b
    for name in RATIOS:
        both[f"{name}_ratio"] = (both[f"{name}_b"] / both[f"{name}_a"].where(both[f"{name}_a"] > 0)).round(4)
    order = [column for name in RATIOS for column in (f"{name}_a", f"{name}_b", f"{name}_ratio")]
    versions = ["server_version_a", "server_version_b"]
    columns = ["cell_id", *versions, *POINT, "total_threads", *order, "valid"]
    return both.sort_values([*versions, *POINT])[columns].reset_index(drop=True)


def named(table: pd.DataFrame, a: Run, b: Run) -> pd.DataFrame:
    """Add lab and run of each side in front, because versions alone would read as SQL Server's."""
    origin = {"lab_a": a.lab, "run_id_a": a.run_id, "lab_b": b.lab, "run_id_b": b.run_id}
    return table.assign(**origin)[[*origin, *table.columns]]


def differences(a: Run, b: Run) -> list[str]:
    """List the circumstances in which two runs differ, a line each."""
    notes = []
    if a.lab != b.lab:
        notes.append(f"The labs differ: a is {a.lab}, b is {b.lab}. Their numbers do not measure one another")
    machines = [{key: str(value) for key, value in (run.manifest.get("machine") or {}).items()} for run in (a, b)]
    if changed := _changed(*machines):
        notes.append(f"The machines differ ({'; '.join(changed)})")
    for group, names in (("versions", DECISIVE_VERSIONS), ("settings", DECISIVE_SETTINGS)):
        one, other = (run.manifest.get(group) or {} for run in (a, b))
        # A run in virtual time has no driver.
        known = [name for name in names if name in one.keys() & other.keys()]
        notes += [f"{name} differs: {one[name]} / {other[name]}" for name in known if one[name] != other[name]]
    notes += _models_differ(a, b)
    notes += _targets_differ(a, b)
    windows = [run.cells.measured_s.median() for run in (a, b)]
    if abs(windows[0] - windows[1]) > 0.1 * max(windows):
        notes.append(f"The measured windows differ: {windows[0]:.3g} s / {windows[1]:.3g} s")
    return notes


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{key}: {one.get(key, 'absent')} / {other.get(key, 'absent')}"
        for key in sorted({*one, *other})
        if one.get(key) != other.get(key)
    ]


def _models_differ(a: Run, b: Run) -> list[str]:
    """List the parameters in which two models differ."""
    if not (a.is_model and b.is_model):
        return []
    changes = _changed(
        *({name: one["value"] for name, one in (run.manifest.get("model") or {}).items()} for run in (a, b))
    )
    changes += _changed(*({"seed": run.manifest.get("seed")} for run in (a, b)))
    return [f"The models differ ({'; '.join(changes)})"] if changes else []


def _targets_differ(a: Run, b: Run) -> list[str]:
    """List the facts in which targets of the same version differ."""
    targets = [
        {
            str(instance.get("lab_version")): _facts(instance.get("fingerprint") or {})
            for instance in run.manifest.get("instances") or []
            if instance.get("name") == "target"
        }
        for run in (a, b)
    ]
    return [
        f"The targets of version {version} differ ({'; '.join(changes)})"
        for version in sorted(targets[0].keys() & targets[1].keys())
        if (changes := _changed(targets[0][version], targets[1][version]))
    ]


def _facts(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    return {name: (fingerprint.get(group) or {}).get(name) for group, names in DECISIVE_FACTS.items() for name in names}


def left_out(a: Run, b: Run, table: pd.DataFrame) -> list[str]:
    """Return a line for each run with cells that the other run lacks."""
    notes = []
    for name, cells in zip("ab", pair(a.cells, b.cells), strict=True):
        missing = sorted(set(cells.cell_id) - set(table.cell_id))
        if missing:
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            notes.append(f"{len(missing)} cells that only {name} completed are left out ({shown})")
    return notes


def _drawings(runs: tuple[Run, Run], table: pd.DataFrame) -> dict[str, Drawing]:
    same_version = by_version(runs[0].cells, runs[1].cells)
    cells = common(runs[0].cells, runs[1].cells, same_version=same_version)
    gains = common(of_the_trick(runs[0].gain), of_the_trick(runs[1].gain), same_version=same_version)
    names = ("a", "b")
    drawings: dict[str, Drawing] = {
        f"throughput-{initiators}-initiator{'s' * (initiators > 1)}": functools.partial(
            side_by_side.throughput, cells, names, initiators
        )
        for initiators in sorted(set(table.initiators.tolist()))
    }
    drawings["gain"] = functools.partial(side_by_side.gain, gains, names)
    drawings["shape"] = functools.partial(side_by_side.shape, cells, names)
    drawings["ratio-map"] = functools.partial(side_by_side.ratio_map, table)
    return drawings


def _head(runs: tuple[Run, Run]) -> str:
    return "   ·   ".join(
        f"{name}: {origin(run.lab, run.load_model, run.versions)}" for name, run in zip("ab", runs, strict=True)
    )


def _foot(feet: Sequence[Sequence[str]], notes: Sequence[str]) -> list[str]:
    lines = []
    for name, (lab, identity, machine) in zip("ab", feet, strict=True):
        lines += [f"{name} · {identity}", f"{lab} · {machine}"]
    if lines[1] == lines[3]:
        lines = [lines[0], lines[2], lines[3]]
    return [*lines, *notes]


def _print(console: Console, runs: tuple[Run, Run], table: pd.DataFrame, notes: Sequence[str]) -> None:
    for name, run in zip("ab", runs, strict=True):
        lab = f"{run.lab} lab{', a model' if run.is_model else ''}"
        console.print(f"{name}: {run.run_id} ({lab}, {len(run.cells)} cells)", highlight=False, markup=False)
    for note in notes:
        console.print(f"! {note}", highlight=False, markup=False)
    console.print(_summary(table))
    console.print(_cells(table))


def _summary(table: pd.DataFrame) -> Table:
    """Make a table of geometric means: of all cells, and by number of initiators and dialog ratio."""
    headings = ("cells", "n", "processed", "single cells", "sent", "drained", "p50", "p95")
    shown = _table(f"b divided by a, geometric means of {len(table)} cells: messages/s, latency p50 and p95", headings)
    shown.caption = "drained: all messages divided by the time until the last was processed"
    shown.caption_justify = "left"
    groups: list[tuple[str, pd.DataFrame]] = [("all", table)]
    groups += [
        (f"i{initiators}, ratio {ratio}", group)
        for (initiators, ratio), group in table.groupby(["initiators", "dialog_ratio"])
    ]
    for name, group in groups:
        processed = group.processed_per_s_ratio
        shown.add_row(
            name,
            str(len(group)),
            _ratio(geometric_mean(processed)),
            f"{processed.min():.2f} to {processed.max():.2f}",
            *(_ratio(geometric_mean(group[f"{column}_ratio"])) for column in RATIOS if column != "processed_per_s"),
        )
    return shown


def _cells(table: pd.DataFrame) -> Table:
    """Make a table of every cell, or of the lowest and highest ratios if there are many cells."""
    ranked = table.sort_values("processed_per_s_ratio")
    if len(ranked) <= ROWS_PRINTED:
        title, rows = "Messages processed per second, by cell", ranked
    else:
        half = ROWS_PRINTED // 2
        title = f"The {half} lowest and {half} highest ratios of {len(ranked)} cells; all are in ratios.csv"
        rows = pd.concat([ranked.head(half), ranked.tail(half)])
    shown = _table(title, ("cell", "a", "b", "b/a", "latency p50", "p95"))
    if not rows.valid.all():
        shown.caption = "* the cell of a or b is not valid: it does not count"
        shown.caption_justify = "left"
    for row in rows.itertuples():
        shown.add_row(
            str(row.cell_id),
            _count(row.processed_per_s_a),
            _count(row.processed_per_s_b),
            _ratio(row.processed_per_s_ratio) + ("" if row.valid else "*"),
            _ratio(row.latency_us_p50_ratio),
            _ratio(row.latency_us_p95_ratio),
        )
    return shown


def _table(title: str, headings: Sequence[str]) -> Table:
    shown = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column(headings[0], no_wrap=True)
    for heading in headings[1:]:
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def _count(value: Any) -> str:
    return f"{value:,.0f}"


def _ratio(value: Any) -> str:
    return "-" if pd.isna(value) else f"{value:.3f}"
