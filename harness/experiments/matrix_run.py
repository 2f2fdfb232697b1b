"""A run of the matrix, or of one cell: how long it takes, and its folder, new or resumed."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from harness.definitions import load_model, units
from harness.definitions.matrix import Cell, Visit, label
from harness.definitions.whitepaper import ACTIVATION_PERIOD_S
from harness.doctor import space
from harness.experiments import lab_choice, precision
from harness.experiments.precision import Precision
from harness.experiments.run_lab import ExecutorOf, RunLab
from harness.experiments.selected_cells import cell_of, visits_on
from harness.failures import Declined
from harness.files import journal
from harness.files.journal import Journal
from harness.files.settings import RunSettings, Settings, SettingsError
from harness.lab import opening
from harness.output.reporting import Reporter, duration
from harness.run import under_way
from harness.run.arrangement import used_dialogs
from harness.run.attempt import SETTLE_OF_FIRST, WINDOW_GROWTH_MAX
from harness.run.in_process import InProcess
from harness.run.settling import SHORTEST_MAX_S, shortest_s
from harness.run.under_way import Outcome

ASK_FROM_S = 3600.0  # a longer sweep begins only when the user confirms it
SOAK_WINDOW = "1m"
SOAK_WINDOWS_MIN = 3  # two say nothing of a drift


def sweep(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    settings_file: Path | None = None,
    resume: Path | None = None,
    like: Path | None = None,
    ask: bool = True,
) -> Outcome:
    """Run the cells that the options select, or those that a run lacks, or the same as a run `like` that.

    Raises Declined where the user declines a long sweep; without `ask` he was asked before.
    """
    lab = lab_choice.choose(options, reporter, verb="matrix", resume=resume or like, settings_file=settings_file)
    return _run(lab, reporter, resume, ask=ask)


def soak(
    cell_id: str,
    duration: float | str,
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    restart_target: bool = False,
    settings_file: Path | None = None,
) -> Outcome:
    """Run one cell again and again on the same instances and dialogs, for about so long: a matrix of one cell in many
    blocks. With `restart_target` the user is asked for a restart in the middle. Raises Declined as `sweep` does."""
    try:
        duration_s = units.parse_duration(duration)
    except ValueError as error:
        raise SettingsError(f"--for: {error}") from None
    given = {**options, "blocks": "warm", "measure": options.get("measure") or SOAK_WINDOW}
    lab = lab_choice.choose(given, reporter, verb="matrix", settings_file=settings_file)
    if restart_target and lab.settings.kind.can.instances_are_children:
        raise SettingsError("--restart-target: nobody can restart the embedded lab's instances: name servers of yours")
    cell = cell_of(cell_id, {}, lab.topology)
    lab = lab.changed(
        soak=True,
        restart_target=restart_target,
        repeats=max(SOAK_WINDOWS_MIN, int(duration_s / _visit_s(lab.settings))),
        cells=(cell.id,),
        server_versions=(cell.server_version,),
        initiators=(cell.initiators,),
        threads=(cell.threads,),
        ratios=(cell.dialog_ratio,),
        payloads=(cell.payload_bytes,),
    )
    return _run(lab, reporter)


def _run(lab: RunLab, reporter: Reporter, resume: Path | None = None, *, ask: bool = True) -> Outcome:
    settings = lab.settings
    visits = visits_on(lab.topology, settings)
    plan = counted(settings, visits)
    if not settings.kind.can.virtual_time:
        length_s = estimate_s(settings, visits)
        plan += f", about {duration(length_s)}"
        if ask:
            confirm_length(reporter, plan, length_s)
        if settings.precision is not None:
            reporter.note(precision.forecast(settings))
    for line in (*limit_lines(settings, visits), *machine_lines(settings, visits)):
        reporter.note(line)
    executor = lab.executor_of(visits, reporter)
    results = lab.open_results(visits, resume)
    reporter.note(f"{plan}, {load_model.describe(settings.open_loop)}; results in {results}")
    reporter.sweep(results, [label(visit.cell.id, visit.block) for visit in visits], settings.kind)
    outcome = run_visits(settings, executor, results, visits, reporter)
    if settings.precision is not None:
        reporter.note(precision.reached(settings.precision, journal.read(results / journal.NAME)))
    return outcome


def confirm_length(reporter: Reporter, plan: str, length_s: float) -> None:
    """Raise Declined where the user declines what takes more than an hour."""
    if length_s > ASK_FROM_S and not reporter.confirm(f"{plan}: begin?"):
        raise Declined(f"{plan}: declined, nothing was started")


def single(
    cell_id: str | None,
    given_axes: Mapping[str, Any],
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    settings_file: Path | None = None,
) -> Outcome:
    """Run one cell."""
    lab = lab_choice.choose(options, reporter, verb="matrix", settings_file=settings_file)
    cell = cell_of(cell_id, given_axes, lab.topology)
    lab = lab.changed(cells=(cell.id,), ratios=(cell.dialog_ratio,), repeats=1)
    reporter.note(f"cell: {cell.id}, {load_model.describe(lab.settings.open_loop)}")
    for line in limit_lines(lab.settings, [Visit(cell)]):
        reporter.note(line)
    results = lab.open_results([cell])

    def executor(run_journal: Journal) -> InProcess[Visit]:
        return InProcess(lab.testbed([cell], results, reporter), reporter)

    return under_way.run(results, [Visit(cell)], reporter, executor)


def run_visits(
    settings: RunSettings, executor: ExecutorOf, results: Path, visits: Sequence[Visit], reporter: Reporter
) -> Outcome:
    """Run the visits in their folder, as long as they are needed. Cells in doubt are measured again at the end of their
    block, or of their version's part of it where only one version's instances can be open."""
    holds_all = settings.kind.can.holds_all_versions
    return under_way.run(
        results,
        visits,
        reporter,
        lambda run_journal: executor(results, run_journal),
        stop_rule=lambda run_journal: Precision(settings.precision, visits, run_journal).is_needed,
        together=lambda visit: (visit.block, None if holds_all else visit.cell.server_version),
    )


# -- the plan ---------------------------------------------------------------------------------------------------------


class Group(NamedTuple):
    """Cells that share instances and a pool of dialogs."""

    server_version: str
    initiators: int
    cells: int
    dialogs: int  # of all initiators
    used_dialogs: int  # likewise


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
        Group(
            version,
            initiators,
            len(cells),
            initiators * max(cell.dialogs for cell in cells),
            initiators * sum(threads for _, threads in used_dialogs(cells)),
        )
        for (_, version, initiators), cells in members.items()
    ]


def settling_s(settings: RunSettings, settled_s: float | None = None) -> float:
    """How long a cell settles on average; `settled_s` is what a former run's cells took."""
    if settled_s is not None:
        return min(settled_s, settings.settle)
    shortest = shortest_s(settings.settle)
    return shortest + settings.kind.costs.settled_part * (settings.settle - shortest)


def _visit_s(settings: RunSettings, settled_s: float | None = None) -> float:
    """How long a cell takes on dialogs that exist."""
    costs = settings.kind.costs
    return max(settings.measure, costs.window_s) + settling_s(settings, settled_s) + costs.drain_s + costs.cell_s


def estimate_s(settings: RunSettings, visits: Sequence[Visit], settled_s: float | None = None) -> float:
    """How long the visits take; `settled_s` as for `settling_s`."""
    costs = settings.kind.costs
    built = groups(visits)
    if isinstance(settings, Settings) and settings.blocks == "warm":  # a pool lives until another group needs its place
        built = [next(same) for _, same in itertools.groupby(built, lambda group: group[:2])]
    versions = [version for version, _ in itertools.groupby(built, lambda group: group.server_version)]
    warms_up_all = settings.kind.warms_up_all(settings.warm_up if isinstance(settings, Settings) else None)
    if isinstance(settings, Settings) and settings.blocks == "fresh":
        versions = list({(visit.block, visit.cell.server_version) for visit in visits})
    return (
        len(visits) * _visit_s(settings, settled_s)
        + sum(group.dialogs for group in built) / costs.dialogs_begun_per_s
        + sum(group.dialogs if warms_up_all else group.used_dialogs for group in built) / costs.dialogs_warmed_per_s
        + len(built) * (costs.group_s + (SETTLE_OF_FIRST - 1) * costs.settled_part * settings.settle)
        + len(versions) * costs.version_s
    )


def plan_lines(settings: RunSettings, visits: Sequence[Visit], settled_s: float | None = None) -> Iterator[str]:
    """Say what the visits are and how long they take; `settled_s` as for `settling_s`."""
    built = groups(visits)
    dialogs = sum(group.dialogs for group in built)
    first = "" if settings.kind.can.virtual_time else f", the first of a group {SETTLE_OF_FIRST * settings.settle:g} s"
    yield (
        f"cells: {counted(settings, visits).replace(' cells', '')}, each measured for {settings.measure:g} s, or up to "
        f"{WINDOW_GROWTH_MAX} times as long until its rate is known, after at most {settings.settle:g} s to settle"
        f"{first}"
    )
    yield f"groups of cells that share instances and dialogs: {len(built)}"
    yield f"dialogs to build: {dialogs:,}, at most {max((group.dialogs for group in built), default=0):,} at once"
    basis = "" if settings.kind.costs.is_measured else " (overhead beside settling and measuring is assumed)"
    yield (
        f"time: about {duration(estimate_s(settings, visits, settled_s))} on the {settings.lab} lab, if a cell settles "
        f"in {settling_s(settings, settled_s):.2g} s on average{basis}"
    )


def limit_lines(settings: RunSettings, visits: Sequence[Visit]) -> Iterator[str]:
    """Say how slow sends may become before the threads of an open loop are too few for its rate, and that cells do not
    settle if a queue reader can be added in them too late for a steady rate."""
    if open_loop := settings.open_loop:
        threads = min(visit.cell.threads for visit in visits)
        send_ms = 1000 * threads / open_loop.rate_per_s
        yield (
            f"{threads} thread{'s' * (threads > 1)} per initiator can make {open_loop.rate_per_s:,g} sends/s while a "
            f"send takes at most {send_ms:{',.0f' if send_ms >= 1000 else '.3g'}} ms on average; "
            "if it takes longer, sends start late or never"
        )
    if settings.kind.can.virtual_time:
        return  # all readers run before a cell begins
    if settings.settle < SHORTEST_MAX_S and settings.settle + settings.measure > ACTIVATION_PERIOD_S:
        yield (
            f"a queue reader is added every {ACTIVATION_PERIOD_S:g} s while messages are left over: cells as long as "
            "these are mostly unsettled; give --settle 20s or more, or a shorter --measure"
        )


def machine_lines(settings: RunSettings, visits: Sequence[Visit]) -> Iterator[str]:
    """Say how much disk the largest cells need, and what instances in containers find on this machine."""
    if not isinstance(settings, Settings) or not settings.kind.can.has_data_files:
        return
    cells = [visit.cell for visit in visits]
    instances = 1 + max(cell.initiators for cell in cells)
    yield f"disk: {space.in_words(space.needs_of(cells, settings, instances))}"
    yield from opening.machine_lines(settings.kind, instances)
