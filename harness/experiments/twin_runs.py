"""Twin runs, an A/A test: how much two runs of the same thing differ, and how often a comparison is wrong about them.

The folder of the twins has a run's folder for each of them. All have the settings of the first.
"""

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from harness.definitions import units
from harness.definitions.inference import Difference, block_means, interval_between, noise_of_pairs, verdict
from harness.definitions.matrix import Cell
from harness.definitions.variances import estimate
from harness.experiments import lab_choice, matrix_run
from harness.experiments.selected_cells import visits_on
from harness.failures import MachineFailure, UsageFailure
from harness.files import certificate, journal, manifest_file
from harness.files.certificate import THRESHOLD, Certificate
from harness.files.records import WITH_THROUGHPUT
from harness.output.reporting import Reporter, duration
from harness.run import run_folder

MATRIX = "twins"  # unless another is given
RUNS_MIN = 3


class NoTwins(UsageFailure):
    """The lab, or what was measured, tells nothing of how much runs differ."""


def run(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    runs: int,
    settings_file: Path | None = None,
    resume: Path | None = None,
) -> Certificate:
    """Make the runs that the folder lacks, then the certificate. Raises Declined where the user declines hours."""
    if runs < RUNS_MIN:
        raise NoTwins(f"--runs {runs}: {RUNS_MIN} runs or more show how much they differ")
    made = _runs_in(resume) if resume else []
    if resume and not made:
        raise NoTwins(f"{resume} is no folder of twins: it has no run")
    if not resume:
        options = {**options, "matrix": options.get("matrix") or MATRIX}
    lab = lab_choice.choose(
        options, Reporter(), verb="matrix", resume=made[0] if made else None, settings_file=settings_file
    )
    settings = lab.settings
    if settings.kind.is_model:
        raise NoTwins("runs of a model repeat exactly, so twins tell nothing: choose --lab embedded or sqlserver")
    folder = resume or settings.results / f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{settings.lab}-twins"
    numbers = range(sum(bool(manifest_file.read(run)["finished_at"]) for run in made) + 1, runs + 1)
    run_s = matrix_run.estimate_s(settings, visits_on(lab.topology, settings))
    plan = f"{units.counted(len(numbers), 'twin run')}, about {duration(len(numbers) * run_s)}"
    matrix_run.confirm_length(reporter, plan, len(numbers) * run_s)
    try:
        for number in numbers:
            left_s = (numbers.stop - number) * run_s
            reporter.note(f"twin run {number} of {runs}, about {duration(left_s)} left")
            made = _runs_in(folder)
            if number == len(made):
                matrix_run.sweep({}, reporter, resume=made[-1], ask=False)
            elif made:
                matrix_run.sweep({}, reporter, like=made[0], ask=False)
            else:
                first = {**options, "results": folder}
                matrix_run.sweep(first, reporter, settings_file=settings_file, ask=False)
    except (KeyboardInterrupt, MachineFailure) as error:
        error.args = (f"{error}; all twins: harness aa --runs {runs} --resume {shlex.quote(str(folder))}",)
        raise
    certified = certify(_runs_in(folder))
    reporter.note(f"certificate: {certificate.write(certified)}")
    return certified


def _runs_in(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob(f"*/{manifest_file.NAME}"))


def certify(runs: Sequence[Path]) -> Certificate:
    """Return what twin runs tell; raises NoTwins where too few of their cells count."""
    rates = [row for number, folder in enumerate(runs) for row in _rates(folder, number)]
    rows = pd.DataFrame(rates, columns=["run", "cell", "block", "log_rate"])
    blocks, cells = rows.block.nunique(), rows.cell.nunique()
    if len(rows) < max(len(runs) * blocks * cells / 2, 1) or min(blocks, cells) < 2:
        raise NoTwins(f"of {runs[0].parent} too few cells count: measure longer, on a quieter machine")
    pairs = rows.assign(pair=[Cell.parse(cell).pair for cell in rows.cell])
    logs = pairs.groupby(["run", "block", "pair"]).log_rate.agg(["count", "first", "last"])
    logs = logs[logs["count"] == 2].assign(log_ratio=logs["last"] - logs["first"]).reset_index()
    manifest = run_folder.read_manifest(runs[0])
    comparisons = list(itertools.combinations(sorted(rows.run.unique()), 2))
    return Certificate(
        subject=certificate.Subject.of(manifest),
        at=run_folder.now(),
        harness_version=manifest["harness_version"],
        code=manifest["code"],
        blocks=blocks,
        cells=cells,
        variances=estimate(rows),
        pair=noise_of_pairs(logs, ["run", "pair"], "log_ratio"),
        comparisons=len(comparisons),
        false_verdicts=sum(_differ(rows[rows.run == a], rows[rows.run == b]) for a, b in comparisons),
    )


def _rates(folder: Path, number: int) -> list[tuple[int, str, int, float]]:
    """Return the rates that count, of the last attempt at each cell in each block: run, cell, block, logarithm."""
    last = {
        (entry.cell, entry.block): entry
        for entry in sorted(journal.read(folder / journal.NAME), key=lambda entry: entry.cell)
        if entry.outcome == "completed"
    }
    return [
        (number, cell, block, math.log(entry.processed_per_s))
        for (cell, block), entry in last.items()
        if entry.state in WITH_THROUGHPUT and entry.processed_per_s > 0
    ]


def _differ(a: pd.DataFrame, b: pd.DataFrame) -> bool:
    """Whether a comparison of two runs by their blocks alone says that one is faster or slower."""
    shared = set(a.cell) & set(b.cell)
    logs = [block_means(side[side.cell.isin(shared)], ["cell"], "log_rate").to_numpy() for side in (a, b)]
    return verdict(interval_between(*logs), THRESHOLD).difference in {Difference.FASTER, Difference.SLOWER}
