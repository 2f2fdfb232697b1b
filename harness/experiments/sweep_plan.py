"""What a sweep would do, before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.definitions.matrix import label
from harness.experiments import matrix_run, repeats_plan, selected_cells
from harness.experiments.repeats_plan import Noise
from harness.files import certificate
from harness.files.certificate import Certificate
from harness.files.settings import RunSettings
from harness.lab import opening
from harness.run import run_folder


@dataclass(frozen=True)
class Plan:
    """What a sweep would do."""

    lab: str  # which lab, and why, in a sentence
    cells: list[str]  # their ids in the order of the run, once a block
    length_s: float  # an estimate
    lines: list[str]  # cells, groups, dialogs to build and time, in words
    repeats: list[tuple[str, str, str]]  # headings first: repeats, time, smallest visible gain of a pair
    explanation: str  # of a visible gain; after harness aa also which slowdown a comparison of two runs finds
    noise: str  # from which that gain follows, and where it is from
    forecast: str  # how many blocks the wanted precision takes; empty without one


def plan(options: Mapping[str, Any], *, settings_file: Path | None = None, noise_from: Path | None = None) -> Plan:
    """Plan the sweep that the options select; raises UsageFailure."""
    chosen = opening.select_lab(options, settings_file=settings_file)
    settings = chosen.settings
    twins = certificate.find({"lab": settings.lab, "machine": run_folder.machine()})
    noise = _noise(settings, noise_from, twins)
    settled_s = noise.settled_s if noise else None

    def estimate_s(repeats: int) -> float:
        repeated = settings.model_copy(update={"repeats": repeats, "precision": None})
        return matrix_run.estimate_s(repeated, selected_cells.visits_on(chosen.topology, repeated), settled_s)

    visits = selected_cells.visits_on(chosen.topology, settings)
    precision = settings.precision
    return Plan(
        lab=chosen.first_line,
        cells=[label(visit.id, visit.block) for visit in visits],
        length_s=matrix_run.estimate_s(settings, visits, settled_s),
        lines=[
            *matrix_run.plan_lines(settings, visits, settled_s),
            *matrix_run.limit_lines(settings, visits),
            *matrix_run.machine_lines(settings, visits),
        ],
        repeats=repeats_plan.rows(noise, estimate_s),
        explanation=repeats_plan.explanation(twins, cells=len({visit.id for visit in visits})),
        noise=str(noise or repeats_plan.unknown(settings.results, settings.lab)),
        forecast="" if precision is None else repeats_plan.forecast(precision, settings.repeats, noise),
    )


def _noise(settings: RunSettings, noise_from: Path | None, twins: Certificate | None) -> Noise | None:
    """Return that of the run that was named, of the newest run here, or of twin runs on this machine."""
    if noise_from:
        return repeats_plan.of_run(noise_from, settings.lab)
    if newest := repeats_plan.newest(settings.results, settings.lab):
        return newest
    return repeats_plan.certified(twins) if twins else None
