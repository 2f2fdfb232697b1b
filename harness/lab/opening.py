"""Open a lab: start instances or sign in to them, install the scripts, link the instances; and close it again."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from harness.failures import nearest
from harness.lab import containers, drivers, embedded_instances, link, user_servers
from harness.lab.instances import Lab, LabError, Security
from harness.lab_file import LabFile

DriverChoice = Literal["auto", "microsoft", "freetds"]


@dataclass(frozen=True)
class Topology:
    """Which instances a lab has (embedded, containers or a lab file's servers), and how their links are secured."""

    place: Literal["embedded", "containers", "servers"] = "embedded"
    lab_file: LabFile | None = None
    security: Security = field(default_factory=Security)

    @property
    def kind(self) -> str:
        """The lab's name in results."""
        return "embedded" if self.place == "embedded" else "sqlserver"

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of SQL Server that this topology offers, those of a sweep first."""
        if self.lab_file is not None:
            return (self.lab_file.version,)
        return embedded_instances.VERSIONS if self.place == "embedded" else containers.VERSIONS

    @property
    def sweep_versions(self) -> tuple[str, ...]:
        """The version axis of a sweep."""
        return containers.SWEEP_VERSIONS if self.place == "containers" else self.versions

    @property
    def initiators_max(self) -> int:
        return len(self.lab_file.initiators) if self.lab_file is not None else 3


@contextlib.contextmanager
def open(
    topology: Topology,
    *,
    version: str,
    initiators: int = 1,
    directory: Path | None = None,
    driver: DriverChoice = "auto",
    watch: Callable[[], None] = lambda: None,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[Lab]:
    """Open a lab of one target and `initiators` initiators, linked and without dialogs; close it after the block.

    Logs lie in `directory`, and so does the data of embedded instances while the lab is open; without one, in a
    temporary directory. `watch` may raise to end whatever waits for the lab (see `interruption`); `tell` gets a line
    for each long step. If opening fails, what it created is removed. Call it from the main thread. Raises LabError,
    drivers.NoDriver or scripts.ScriptError.
    """
    if version not in topology.versions:
        raise LabError(f"the {topology.kind} lab has no version {version!r}{nearest(version, topology.versions)}")
    drivers.check_manager()
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-lab-")))
        chosen = drivers.choose(driver)
        if topology.lab_file is not None:
            lab = user_servers.start(
                topology.lab_file, initiators=initiators, directory=directory, driver=chosen, watch=watch, tell=tell
            )
        elif topology.place == "containers":
            lab = stack.enter_context(
                containers.running(
                    version=version, initiators=initiators, directory=directory, driver=chosen, watch=watch, tell=tell
                )
            )
        else:
            lab = stack.enter_context(
                embedded_instances.running(version=version, initiators=initiators, directory=directory, driver=chosen)
            )
        lab.watch = watch
        lab.security = topology.security
        try:
            link.link(lab)
        except BaseException:
            if lab.place == "servers":
                user_servers.abandon(lab, tell)
            raise
        yield lab
