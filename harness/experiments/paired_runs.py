"""A pair of runs: two workloads or settings, measured in turns, so that they are compared block by block.

The folder of the pair has a run's folder for each side, `a` and `b`, which is like any other run. A block of one
follows the same block of the other, A B in one, B A in the next, so that a drift of the machine does not decide. Each
block of a side has a lab of its own: so workloads, settings, and labs can differ that cannot be open together.
"""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from harness.definitions.inference import BLOCKS_MIN
from harness.definitions.matrix import Visit
from harness.experiments import lab_choice, matrix_run
from harness.experiments.run_lab import RunLab
from harness.experiments.selected_cells import visits_on
from harness.failures import MachineFailure
from harness.files import manifest_file
from harness.files.settings import SettingsError
from harness.output.reporting import Reporter, duration
from harness.run.run_folder import NoRun
from harness.run.under_way import Outcome

SIDES = ("a", "b")
KEY = "pair"  # of a manifest: the name of the pair, the same on both sides


@dataclass
class _Side:
    name: str
    lab: RunLab
    visits: Sequence[Visit]
    results: Path | None  # None: not made yet


class _Turn(NamedTuple):
    side: _Side
    visits: Sequence[Visit]
    length_s: float  # about; 0 in virtual time


def run(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    names: Sequence[str] = (),
    settings_file: Path | None = None,
    resume: Path | None = None,
) -> list[Outcome]:
    """Run both sides. Raises Declined where the user declines a run of hours.

    `names` are those of two workloads, or of two files of settings (TOML). `resume` is the folder of a pair, of which
    what is missing is run.
    """
    if resume is None and len(names) != len(SIDES):
        raise SettingsError(f"--pair: {','.join(names)!r}: name two workloads or two settings files, as in --pair A,B")
    folder = resume
    sides = []
    for place, name in enumerate(SIDES):
        started = _run_in(folder / name) if folder else None
        if resume and started is None:
            raise NoRun(f"{resume} is no pair of runs: it has none in {name}")
        of_side, file = options, None
        if not started:
            of_side, file = _of_side(options, names[place], settings_file)
            reporter.note(f"{name}: {names[place]}")
        lab = lab_choice.choose(of_side, reporter, verb="matrix", resume=started, settings_file=file)
        if lab.settings.repeats < BLOCKS_MIN:
            raise SettingsError(f"--pair compares blocks: give --repeats {BLOCKS_MIN} or more")
        if lab.settings.precision is not None:
            raise SettingsError("--precision is that of gains, and --pair compares two runs: leave one out")
        folder = folder or lab.settings.results / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-pair"
        visits = visits_on(lab.topology, lab.settings)
        sides.append(_Side(name, lab.changed(results=folder / name), visits, started))
    assert folder is not None
    first, second = ({visit.cell.id for visit in side.visits} for side in sides)
    if not first & second:
        ids = f"{min(first)} ... and {min(second)} ..."
        raise SettingsError(f"--pair: the sides have no cell in common ({ids}): give both the same axes and versions")
    turns = list(_turns(sides))
    length_s = sum(turn.length_s for turn in turns)
    matrix_run.confirm_length(reporter, f"a pair, about {duration(length_s)}", length_s)
    for side in sides:
        side.results = side.lab.open_results(side.visits, side.results, **{KEY: folder.name})
    reporter.note(f"the pair: {folder}")
    try:
        return _in_turns(sides, turns, reporter)
    except (KeyboardInterrupt, MachineFailure) as error:
        error.args = (f"{error}; both: harness matrix --resume {shlex.quote(str(folder))}",)
        raise


def _of_side(
    options: Mapping[str, Any], name: str, settings_file: Path | None
) -> tuple[Mapping[str, Any], Path | None]:
    """Return the options of a side, and its file of settings."""
    if name.endswith(".toml"):
        if settings_file is not None:
            raise SettingsError(f"--settings: {name} of --pair is a settings file too: leave one out")
        return options, Path(name)
    return {**options, "workload": name}, settings_file


def _run_in(folder: Path) -> Path | None:
    return next((path.parent for path in folder.glob(f"*/{manifest_file.NAME}")), None)


def _in_turns(sides: Sequence[_Side], turns: Sequence[_Turn], reporter: Reporter) -> list[Outcome]:
    outcomes = {side.name: Outcome(side.results, 0, 0, 0) for side in sides if side.results}
    for number, (side, visits, _) in enumerate(turns):
        assert side.results is not None
        left_s = sum(turn.length_s for turn in turns[number:])
        left = f", about {duration(left_s)} left" if left_s else ""
        reporter.note(f"{side.name}, block {visits[0].block} of {side.visits[-1].block}{left}")
        executor = side.lab.executor_of(visits, reporter)
        block = matrix_run.run_visits(side.lab.settings, executor, side.results, visits, reporter)
        outcome = outcomes[side.name]
        outcome.total, outcome.completed = outcome.total + block.total, outcome.completed + block.completed
        outcome.failed, outcome.reason = outcome.failed + block.failed, block.reason or outcome.reason
    return list(outcomes.values())


def _turns(sides: Sequence[_Side]) -> Iterator[_Turn]:
    """Yield each side's visits of each block: A B, B A, A B ..."""
    for block in range(1, max(side.visits[-1].block for side in sides) + 1):
        for side in sides if block % 2 else reversed(sides):
            if visits := [visit for visit in side.visits if visit.block == block]:
                settings = side.lab.settings
                length_s = 0.0 if settings.kind.can.virtual_time else matrix_run.estimate_s(settings, visits)
                yield _Turn(side, visits, length_s)
