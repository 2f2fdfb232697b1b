"""Run many seeds, each in a fork of one linked lab, or one seed with its timeline."""

import contextlib
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from harness.definitions.units import counted
from harness.files import settings as settings_module
from harness.output.reporting import Reporter
from harness.simulation import forks, parameters
from harness.simulation.faults import fault_plan, fault_scenario
from harness.simulation.faults.checkers import CallOutcome
from harness.simulation.faults.fault_scenario import PreparedLab, ScenarioRun, SeedOutcome

SEEDS_DEFAULT = 1000
_SHOWN_MAX = 10  # violations of one seed
FIRST_LINE = (
    "lab: simulated - a model of the hardware {hardware!r} in virtual time; faults beside the load, "
    "judged by what clients were told and what the target's tables hold"
)


@dataclass
class Summary:
    """The results of many seeds."""

    hardware: str
    seeds: int = 0
    faults: int = 0
    stored: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    failed: list[SeedOutcome] = field(default_factory=list)

    def add(self, outcome: SeedOutcome) -> None:
        self.seeds += 1
        self.faults += outcome.faults
        self.stored += outcome.stored
        self.calls.update(outcome.calls)
        if outcome.violations:
            self.failed.append(outcome)
            self.failed.sort(key=lambda failure: failure.seed)

    def line(self, duration_s: float) -> str:
        verdict = f"{len(self.failed)} failed" if self.failed else "all checks hold"
        return (
            f"{counted(self.seeds, 'seed')} in {duration_s:.0f} s: {verdict}; {counted(self.faults, 'fault')}, "
            f"{counted(self.calls.total(), 'call')}, {self.calls[CallOutcome.CUT_OFF.value]} of them cut off, "
            f"{counted(self.stored, 'message')} stored"
        )


def command(seed: int, hardware: str) -> str:
    """Return the command that repeats a seed."""
    return f"harness simulate --faults --seed {seed} --hardware {shlex.quote(hardware)}"


def simulate_faults(seeds: int | None, seed: str | None, reporter: Reporter, *, hardware: str | None) -> Summary:
    """Run seeds and report: the one `seed`, or as many as `seeds` from there on."""
    settings = settings_module.create_simulation({"seed": seed, "hardware": hardware})
    count = seeds or (SEEDS_DEFAULT if seed is None else 1)
    wanted = range(settings.seed, settings.seed + count)
    model = parameters.read(settings.hardware)
    reporter.note(FIRST_LINE.format(hardware=settings.hardware))
    began_s = time.monotonic()
    prepared = fault_scenario.prepare(model)
    summary = Summary(settings.hardware)
    if count == 1:
        outcome = run_seed(prepared, settings.seed)
        summary.add(outcome)
        for line in (*details(outcome), verdict(outcome, settings.hardware)):
            reporter.note(line)
        return summary

    def ended(outcome: SeedOutcome) -> None:
        summary.add(outcome)
        if outcome.violations:  # at once, so that it is shown even if the rest is interrupted
            reporter.note(verdict(outcome, settings.hardware))
        failed = f"{len(summary.failed)} failed"
        reporter.phase(failed)
        reporter.cell_done(summary.seeds, str(outcome.seed), "completed", failed)

    reporter.begin(count, 0, unit="seed", every=-(-count // 10))
    try:
        many(prepared, wanted, ended)
    finally:
        reporter.end()
    if summary.failed:
        for line in details(summary.failed[0]):
            reporter.note(line)
    reporter.note(summary.line(time.monotonic() - began_s))
    return summary


def details(outcome: SeedOutcome) -> Iterator[str]:
    """Yield the seed's timeline and its violations."""
    yield f"seed {outcome.seed}:"
    yield from (f"  {line}" for line in outcome.timeline)
    for violation in outcome.violations[:_SHOWN_MAX]:
        yield f"  violated - {violation}"
    if (more := len(outcome.violations) - _SHOWN_MAX) > 0:
        yield f"  and {more} more"
    yield f"  {outcome.summary}; trace {outcome.trace[:16]}"


def verdict(outcome: SeedOutcome, hardware: str) -> str:
    if outcome.violations:
        return f"seed {outcome.seed} failed; again: {command(outcome.seed, hardware)}"
    return f"seed {outcome.seed}: all checks hold"


def many(prepared: PreparedLab, seeds: Iterable[int], ended: Callable[[SeedOutcome], None]) -> None:
    """Run each seed on a fork of the prepared lab, and call `ended` for each."""
    forks.freeze_heap()
    actions = ((seed, partial(run_seed, prepared, seed)) for seed in seeds)
    with contextlib.closing(forks.in_forks(actions)) as running:
        for seed, fork in running:
            try:
                outcome = fork.result()
            except Exception as error:
                outcome = SeedOutcome(seed, [f"the scenario failed: {error}"])
            ended(outcome)


def run_seed(prepared: PreparedLab, seed: int) -> SeedOutcome:
    return ScenarioRun(prepared, fault_plan.make(seed)).outcome()
