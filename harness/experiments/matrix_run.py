"""A run of the matrix, or of one cell: how long it takes, and its folder, new or resumed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import journal, load_model, units
from harness.experiments import precision
from harness.experiments.precision import Precision
from harness.experiments.run_options import on_servers, open_results
from harness.experiments.selected_cells import cell_of, visits_on
from harness.lab.opening import Selection, select_lab
from harness.matrix import Cell, Visit, label
from harness.reporting import Reporter, duration
from harness.run import run_folder
from harness.run.attempt import Measured
from harness.run.engine import Sweep, Tally, Testbed
from harness.run.equipment import Preflight
from harness.run.settling import SHORTEST_MAX_S, shortest_s
from harness.run.testbed import LabTestbed
from harness.run.under_way import under_way
from harness.settings import RunSettings, Settings
from harness.whitepaper import ACTIVATION_PERIOD_S

ASK_FROM_S = 3600.0  # a longer sweep begins only when the user confirms it


@dataclass
class Outcome:
    """How a run ended."""

    results: Path
    total: int
    completed: int
    failed: int
    reason: str = ""
    measured: Measured | None = None  # of the last completed cell


def sweep(
    options: Mapping[str, Any], reporter: Reporter, *, settings_file: Path | None = None, resume: Path | None = None
) -> Outcome | None:
    """Runs the cells that the options select, or those that a run lacks; None where the user declines a long sweep."""
    selection = on_servers(options, resume=resume, verb="matrix", settings_file=settings_file)
    settings = selection.settings
    reporter.note(selection.first_line)
    visits = visits_on(selection.topology, settings)
    length_s = estimate_s(settings, visits)
    plan = f"{counted(settings, visits)}, about {duration(length_s)}"
    if length_s > ASK_FROM_S and not reporter.confirm(f"{plan}: begin?"):
        return None
    _note_bound(settings, [visit.cell for visit in visits], reporter)
    _note_readers(settings, reporter)
    if settings.precision is not None:
        reporter.note(precision.forecast(settings.precision, settings.repeats))
    results = open_results(settings, visits, resume)
    reporter.note(f"{plan}, {load_model.describe(settings.open_loop)}; results in {results}")
    reporter.sweep(
        results,
        [label(visit.cell.id, visit.block) for visit in visits],
        selection.topology.kind,
    )
    tally = run_cells(selection, results, visits, reporter)
    if settings.precision is not None:
        reporter.note(precision.reached(settings.precision, journal.read(results / journal.NAME)))
    return Outcome(results, len(visits) - tally.not_needed, tally.completed, tally.failed, tally.last_reason)


def single(
    cell_id: str | None,
    given_axes: Mapping[str, Any],
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    settings_file: Path | None = None,
) -> Outcome:
    """Runs one cell."""
    selection = select_lab(options, settings_file=settings_file)
    reporter.note(selection.first_line)
    cell = cell_of(cell_id, given_axes, selection.topology)
    this_alone = {"cells": (cell.id,), "ratios": (cell.dialog_ratio,), "repeats": 1}
    selection = replace(selection, settings=selection.settings.model_copy(update=this_alone))
    reporter.note(f"cell: {cell.id}, {load_model.describe(selection.settings.open_loop)}")
    _note_bound(selection.settings, [cell], reporter)
    _note_readers(selection.settings, reporter)
    results = open_results(selection.settings, [cell])
    tally = run_cells(selection, results, [Visit(cell)], reporter)
    return Outcome(results, 1, tally.completed, tally.failed, tally.last_reason, tally.last)


def _note_bound(settings: RunSettings, cells: Sequence[Cell], reporter: Reporter) -> None:
    """Say how slow sends may become before the threads of an open loop are too few for its rate."""
    if open_loop := settings.open_loop:
        threads = min(cell.threads for cell in cells)
        reporter.note(
            f"{threads} thread{'s' * (threads > 1)} per initiator can make {open_loop.rate_per_s:,g} sends/s while a "
            f"send takes at most {1000 * threads / open_loop.rate_per_s:,.3g} ms on average; "
            "if it takes longer, sends start late or never"
        )


def _note_readers(settings: Settings, reporter: Reporter) -> None:
    """Say that cells will not settle if a queue reader can be added in them, and too late to become steady."""
    if settings.settle < SHORTEST_MAX_S and settings.settle + settings.measure > ACTIVATION_PERIOD_S:
        reporter.note(
            f"a queue reader is added every {ACTIVATION_PERIOD_S:g} s while messages are left over: cells as long as "
            "these are mostly unsettled; give --settle 20s or more, or a shorter --measure"
        )


def run_cells(selection: Selection, results: Path, visits: Sequence[Visit], reporter: Reporter) -> Tally:
    """Runs the cells on the chosen lab; the manifest says when all have had their turn."""
    cells = [visit.cell for visit in visits]
    with under_way(results) as run_journal:
        preflight = Preflight(selection.settings, cells, results, reporter)
        testbed: Testbed[Visit] = LabTestbed(selection.topology, preflight)
        stop_rule = Precision(selection.settings.precision, visits, run_journal)
        tally = Sweep(testbed, run_journal, reporter, results).run(visits, stop_rule.is_needed)
        run_folder.finish(results)
    return tally


# -- the plan ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Cells that share instances and a pool of dialogs."""

    server_version: str
    initiators: int
    cells: int
    dialogs: int  # of all initiators


def counted(settings: RunSettings, visits: Sequence[Visit]) -> str:
    """`24 cells`, or `24 cells, each in 5 blocks`."""
    cells = units.counted(len({visit.cell for visit in visits}), "cell")
    if settings.repeats == 1:
        return cells
    return f"{cells}, each in {'' if settings.precision is None else 'at most '}{settings.repeats} blocks"


def groups(visits: Sequence[Visit]) -> list[Group]:
    """The groups in the order in which they first run, again for each block."""
    members: dict[tuple[int, str, int], list[Cell]] = {}
    for visit in visits:
        members.setdefault((visit.block, *visit.cell.group), []).append(visit.cell)
    return [
        Group(version, initiators, len(cells), initiators * max(cell.dialogs for cell in cells))
        for (_, version, initiators), cells in members.items()
    ]


def settling_s(settings: Settings, settled_s: float | None = None) -> float:
    """How long a cell settles on average; `settled_s` is what a former run's cells took."""
    if settled_s is not None:
        return min(settled_s, settings.settle)
    shortest = shortest_s(settings.settle)
    return shortest + settings.kind.costs.settled_part * (settings.settle - shortest)


def estimate_s(settings: Settings, visits: Sequence[Visit], settled_s: float | None = None) -> float:
    """How long the visits take; `settled_s` as for `settling_s`."""
    costs = settings.kind.costs
    cell_s = settings.measure + settling_s(settings, settled_s) + costs.drain_s + costs.cell_s
    built = groups(visits)
    versions = [version for version, _ in itertools.groupby(built, lambda group: group.server_version)]
    return (
        len(visits) * cell_s
        + sum(group.dialogs for group in built) / costs.dialogs_per_s
        + len(built) * costs.group_s
        + len(versions) * costs.version_s
    )


def plan_lines(settings: Settings, visits: Sequence[Visit], settled_s: float | None = None) -> Iterator[str]:
    """Say what the visits are and how long they take; `settled_s` as for `settling_s`."""
    built = groups(visits)
    dialogs = sum(group.dialogs for group in built)
    yield (
        f"cells: {counted(settings, visits).replace(' cells', '')}, each measured for {settings.measure:g} s after at "
        f"most {settings.settle:g} s to settle"
    )
    yield f"groups of cells that share instances and dialogs: {len(built)}"
    yield f"dialogs to build: {dialogs:,}, at most {max((group.dialogs for group in built), default=0):,} at once"
    basis = "" if settings.kind.costs.is_measured else " (overhead beside settling and measuring is assumed)"
    yield (
        f"time: about {duration(estimate_s(settings, visits, settled_s))} on the {settings.lab} lab, if a cell settles "
        f"in {settling_s(settings, settled_s):.2g} s on average{basis}"
    )
