"""The steps of a run, from the closed loop upwards, and how each is run on servers and in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.journal import Entry, Journal
from harness.lab.instances import LabError
from harness.load_model import Arrivals, OpenLoop
from harness.matrix import Cell, Visit
from harness.run.attempt import Measured
from harness.run.cell_failures import CellFailed, NotReady
from harness.run.phases import Phases
from harness.run.testbed import LabTestbed
from harness.script_text import ScriptError
from harness.settings import Settings, SimulationSettings
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import Times, WarmedWorld, WorldSize

PERCENTS = tuple(range(10, 111, 10))


def step_id(percent: int | None) -> str:
    """The name of a step in journal and folder; None is the closed loop."""
    return "closed-loop" if percent is None else f"rate-{percent:03d}"


@dataclass(frozen=True)
class Step:
    """The cell at a share of its closed-loop rate; without one, in the closed loop."""

    cell: Cell
    percent: int | None = None
    block: int = 1

    @property
    def id(self) -> str:
        return step_id(self.percent)

    @property
    def visit(self) -> Visit:
        return Visit(self.cell, self.block)

    def folder(self, results: Path) -> Path:
        """Return the folder of the raw records of all blocks."""
        return results / "rates" / self.id


def steps(cell: Cell, repeats: int) -> list[Step]:
    """List the closed loop and the rates upwards, then all again in the next block."""
    return [Step(cell, percent, block) for block in range(1, repeats + 1) for percent in (None, *PERCENTS)]


class CellRunner(Protocol):
    """Runs a cell under any load and writes its records to any folder: on servers or in virtual time."""

    def make_ready(self, cell: Cell, phases: Phases) -> None:
        """Raise NotReady if the cell cannot run."""
        ...

    def run(  # noqa: PLR0917
        self, visit: Visit, attempt: int, run: int, phases: Phases, open_loop: OpenLoop | None, folder: Path
    ) -> Measured: ...

    def tear_down(self) -> None: ...

    def close(self) -> None: ...


class StepsTestbed:
    """Implements `run.engine.Testbed`. All rates are shares of the first block's closed loop: blocks repeat them."""

    def __init__(self, runner: CellRunner, journal: Journal, results: Path, arrivals: Arrivals, seed: int) -> None:
        self._runner = runner
        self._journal = journal
        self._results = results
        self._arrivals = arrivals
        self._seed = seed

    def make_ready(self, cell: Step, phases: Phases) -> None:
        if cell.percent is not None and not closed_loop_per_s(self._journal.entries):
            raise CellFailed("the closed loop has no rate, of which this step's would be a share")
        self._runner.make_ready(cell.cell, phases)

    def run(self, cell: Step, attempt: int, run: int, phases: Phases) -> Measured:
        open_loop = load_of(cell, self._journal.entries, self._arrivals, self._seed)
        return self._runner.run(cell.visit, attempt, run, phases, open_loop, cell.folder(self._results))

    def tear_down(self) -> None:
        self._runner.tear_down()

    def close(self) -> None:
        self._runner.close()


def closed_loop_per_s(entries: Iterable[Entry]) -> float:
    """Return the rate of all initiators in the first closed loop that was completed; 0 without any."""
    rates = (entry.sent_per_s for entry in entries if entry.cell == step_id(None) and entry.outcome == "completed")
    return next(rates, 0.0)


def load_of(step: Step, entries: Iterable[Entry], arrivals: Arrivals, seed: int) -> OpenLoop | None:
    """Return the load of a step; None: the closed loop. A run that is resumed reads the same rate in its journal."""
    if step.percent is None:
        return None
    rate_per_s = closed_loop_per_s(entries) / step.cell.initiators * step.percent / 100
    return OpenLoop(rate_per_s, arrivals, seed)


class ServerRunner:
    """Implements `CellRunner` on servers, with Locust. Use it from the main thread."""

    def __init__(self, testbed: LabTestbed, settings: Settings) -> None:
        self._testbed = testbed
        self._settings = settings

    def make_ready(self, cell: Cell, phases: Phases) -> None:
        self._testbed.make_ready(Visit(cell), phases)

    def run(  # noqa: PLR0917
        self, visit: Visit, attempt: int, run: int, phases: Phases, open_loop: OpenLoop | None, folder: Path
    ) -> Measured:
        load = {"rate": open_loop.rate_per_s, "arrivals": open_loop.arrivals} if open_loop else {}
        self._testbed.write_to(folder, self._settings.model_copy(update=load))
        return self._testbed.run(visit, attempt, run, phases)

    def tear_down(self) -> None:
        self._testbed.tear_down()

    def close(self) -> None:
        self._testbed.close()


class SimulatedRunner:
    """Implements `CellRunner` in virtual time: each step runs in a fork of one warmed world."""

    def __init__(self, settings: SimulationSettings, hardware: Parameters) -> None:
        self._settings = settings
        self._hardware = hardware
        self._world: Callable[[Visit, int, Times, Path], Measured] | None = None

    def make_ready(self, cell: Cell, phases: Phases) -> None:
        if self._world is not None:
            return
        with phases.phase("dialogs"):
            try:
                world = WarmedWorld(self._hardware, cell.server_version, WorldSize.of([cell]), seed=self._settings.seed)
            except (LabError, ScriptError) as error:
                raise NotReady(str(error)) from None
        self._world = world.run

    def run(  # noqa: PLR0917
        self, visit: Visit, attempt: int, run: int, phases: Phases, open_loop: OpenLoop | None, folder: Path
    ) -> Measured:
        assert self._world is not None
        with phases.phase("copy"):
            return self._world(visit, attempt, Times.of(self._settings, open_loop), folder)

    def tear_down(self) -> None:
        self._world = None

    def close(self) -> None:
        self.tear_down()
