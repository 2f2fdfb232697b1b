"""A model in virtual time as the lab of a run: its settings, its parameters, and Spark for the cells of a matrix."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.definitions.lab_kinds import SIMULATED
from harness.definitions.matrix import Cell, Visit
from harness.experiments.run_lab import ExecutorOf, RunLab, Times
from harness.experiments.selected_cells import cells_of
from harness.files import settings as settings_module
from harness.files import workload_file
from harness.files.journal import Journal
from harness.files.settings import SimulationSettings
from harness.files.workload_file import Workload
from harness.lab.opening import Topology
from harness.output.reporting import Reporter
from harness.reductions import spark_session
from harness.run import run_folder
from harness.run.testbed import LoadOf
from harness.simulation import parameters
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import WorldSize
from harness.simulation.spark_job import Experiment, Mailbox, SparkExecutor
from harness.simulation.virtual_testbed import VirtualTestbed


@dataclass(frozen=True)
class InVirtualTime(RunLab):
    """A model, in virtual time."""

    settings: SimulationSettings
    hardware: Parameters

    @property
    def model(self) -> Mapping[str, Any]:
        return self.hardware.as_manifest()

    def open_results(self, items: Sequence[Any], resume: Path | None = None, **more: Any) -> Path:
        more = {"model": self.model, **more}
        return run_folder.open_run(self.settings, cells=len(items), driver=None, resume=resume, **more)

    def testbed(
        self,
        cells: Sequence[Cell],
        results: Path,
        reporter: Reporter,
        *,
        load_of: LoadOf | None = None,
        examined: Callable[[], None] = lambda: None,
    ) -> VirtualTestbed:
        workload = self.topology.workload
        return VirtualTestbed(self.settings, self.hardware, results, workload=workload, load_of=load_of)

    def executor_of(self, visits: Sequence[Visit], reporter: Reporter) -> ExecutorOf:
        settings = self.settings
        spark_session.require_java()
        spark_session.reach(settings.master)

        def executor(results: Path, run_journal: Journal) -> SparkExecutor:
            Mailbox(results).take(run_journal.append)  # entries that a killed run did not collect
            world = WorldSize.of(cells_of(settings))
            return SparkExecutor(
                Experiment(settings, self.hardware, results.absolute(), world),
                reporter,
                master=settings.master,
                decides_by_block=settings.precision is not None,
            )

        return executor


def choose(
    options: Mapping[str, Any],
    reporter: Reporter,
    *,
    verb: str,
    resume: Path | None,
    settings_file: Path | None,
    times: Times,
    workload: Workload | None,
) -> InVirtualTime:
    """Return the model with the settings of a run; `lab_choice.choose` says what is raised."""
    stored = run_folder.stored_settings(resume, SimulationSettings, verb) if resume else None

    def defaults(given: Mapping[str, Any]) -> Mapping[str, Any]:
        matrix = given.get("matrix")
        return stored or {**times.get(SIMULATED.name, {}), **(matrix.settings(SIMULATED.name) if matrix else {})}

    settings = settings_module.create_simulation(options, file=settings_file, defaults=defaults)
    if resume and stored:
        run_folder.require_same(resume, stored, settings)
    reporter.note(
        f"lab: {settings.lab} - a model of the hardware {settings.hardware!r} in virtual time; "
        "its numbers are not SQL Server's and measure nothing"
    )
    times_s = f"settling {settings.settle:g} s and measuring {settings.measure:g} s of virtual time"
    reporter.note(f"seed {settings.seed}, {times_s}")
    topology = Topology(SIMULATED, workload=workload or workload_file.paper())
    return InVirtualTime(settings, topology, parameters.read(settings.hardware))
