"""The lab of a run, with the settings of the run: servers or a model in virtual time, and every run asks both alike."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from harness.definitions.matrix import Cell, Visit
from harness.files.journal import Journal
from harness.files.settings import RunSettings
from harness.lab.opening import Topology
from harness.output.reporting import Reporter
from harness.run.engine import Executor
from harness.run.in_process import Testbed
from harness.run.testbed import LoadOf

Times = Mapping[str, Mapping[str, Any]]  # default durations by the lab's name
ExecutorOf = Callable[[Path, Journal], Executor[Visit]]


@dataclass(frozen=True)
class RunLab(ABC):
    """A lab, not open yet, and the settings of a run on it."""

    settings: RunSettings
    topology: Topology

    @property
    def model(self) -> Mapping[str, Any]:
        """The parameters of a model, as the manifest has them; of servers none."""
        return {}

    def changed(self, **settings: Any) -> Self:
        """Return the same with other settings."""
        return replace(self, settings=self.settings.model_copy(update=settings))

    @abstractmethod
    def open_results(self, items: Sequence[Any], resume: Path | None = None, **more: Any) -> Path:
        """Make or open the run's folder with its manifest, which includes `more`. First check whatever needs no lab."""

    @abstractmethod
    def testbed(
        self,
        cells: Sequence[Cell],
        results: Path,
        reporter: Reporter,
        *,
        load_of: LoadOf | None = None,
        examined: Callable[[], None] = lambda: None,
    ) -> Testbed[Any]:
        """Return the testbed of items with these cells.

        `load_of` gives each item's load in place of the settings'; `examined` is called when a lab has been examined.
        """

    @abstractmethod
    def executor_of(self, visits: Sequence[Visit], reporter: Reporter) -> ExecutorOf:
        """Return how a matrix is run in its folder. First check whatever needs no lab."""
