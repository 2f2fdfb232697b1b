"""The stand on which cells run: a lab, its dialogs, clients and observers, kept from cell to cell while they fit.

Expensive things are changed only when they must be: instances when the version changes or one died; conversations when
the group (version, initiators, ratio) changes; clients, connections and observers with the instances.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from harness.lab import dialogs, reset
from harness.lab import open as open_lab
from harness.lab.instances import Instance, Lab, LabError, in_parallel
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.lab.scripts import ScriptError
from harness.load.clients import Clients
from harness.load.plan import LoadError
from harness.matrix import Cell
from harness.observe import Observers, pages
from harness.settings import Settings
from harness.sweep.cell import Attempt, Measured, NotReady, Surroundings
from harness.sweep.phases import Phases


class LabStand:
    """Implements `sweep.Stand` with a real lab and Locust. Use it from the main thread."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        results: Path,
        cells: Sequence[Cell],
        *,
        on_rate: Callable[[float], None] = lambda rate: None,
        on_lab: Callable[[Lab], None] = lambda lab: None,
        on_note: Callable[[str], None] = lambda text: None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self._settings = settings
        self._topology = topology
        self._results = results
        self._on_rate = on_rate
        self._on_lab = on_lab
        self._on_note = on_note
        self._watch = watch
        # A lab serves every cell of its version, a pool every cell of its group.
        self._initiators = {
            cell.server_version: max(c.initiators for c in cells if c.server_version == cell.server_version)
            for cell in cells
        }
        self._threads = {cell.group: max(c.threads for c in cells if c.group == cell.group) for cell in cells}
        self._lab_exits = contextlib.ExitStack()
        self._clients: Clients | None = None
        self._parts: Surroundings | None = None
        self._group: tuple[str, int, int] | None = None
        self._pool_used = False
        self._pages: pages.Spread = {}  # of the pool that stands
        self._said: set[str] = set()

    def make_ready(self, cell: Cell, phases: Phases) -> None:
        try:
            if self._parts is not None and self._parts.lab.version != cell.server_version:
                self._close_lab()
            if self._parts is None:
                with phases.phase("lab"):
                    self._open(cell.server_version)
            if self._group != cell.group:
                with phases.phase("dialogs"):
                    self._build_pool(cell)
        except (LabError, ScriptError, LoadError, ChildError) as error:
            raise NotReady(str(error)) from None

    def run(self, cell: Cell, attempt: int, run: int, phases: Phases) -> Measured:
        assert self._parts is not None
        measured = Attempt(
            cell,
            attempt,
            run,
            self._parts,
            self._settings,
            self._results,
            phases,
            on_rate=self._on_rate,
            pages=self._pages,
        ).run()
        for text in measured.complaints:
            self._on_note(f"{cell.id}: {text}")
        return measured

    def tear_down(self) -> None:
        self._close_lab()
        clients, self._clients = self._clients, None
        if clients is not None:
            with contextlib.suppress(Exception):
                clients.close()

    def _close_lab(self) -> None:
        """The clients stay: they connect to whatever lab comes next."""
        parts, self._parts, self._group, self._pool_used = self._parts, None, None, False
        if parts is not None:
            _release(parts)
        exits, self._lab_exits = self._lab_exits, contextlib.ExitStack()
        with contextlib.suppress(Exception):
            exits.close()

    def _open(self, version: str) -> None:
        if self._clients is None:
            self._clients = Clients(log_directory=self._results / "lab" / "logs", run=self._results.name)
        lab = self._lab_exits.enter_context(
            open_lab(
                self._topology,
                version=version,
                initiators=self._initiators[version],
                directory=self._results / "lab",
                driver=self._settings.driver,
                watch=self._watch,
                tell=self._on_note,
            )
        )
        self._on_lab(lab)
        self._parts = self._surroundings(lab)

    def _build_pool(self, cell: Cell) -> None:
        assert self._parts is not None
        parts = self._parts
        if self._pool_used:
            # Disconnects every session in the databases, ours included.
            _release(parts)
            reset.conversations(parts.lab)
            self._parts = self._surroundings(parts.lab)
        self._group, self._pool_used = None, True
        dialogs.build(
            parts.lab,
            initiators=cell.initiators,
            used_dialogs=self._threads[cell.group],
            dialog_ratio=cell.dialog_ratio,
        )
        self._pages = self._spread(parts.lab.initiators[: cell.initiators])
        if self._pages:
            pool = f"i{cell.initiators}-r{cell.dialog_ratio}-v{cell.server_version}"
            self._on_note(f"dialogs of {pool}: {pages.summary(self._pages)}")
        self._group = cell.group

    def _spread(self, taking_part: Sequence[Instance]) -> pages.Spread:
        """Where the dialogs lie that were just begun; empty where an initiator does not tell, which is said once."""
        try:
            return dict(zip([one.name for one in taking_part], in_parallel(pages.located, taking_part), strict=True))
        except (LabError, ScriptError) as error:
            self._say_once(f"on which pages the dialogs lie is not recorded: {error}")
            return {}

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._on_note(text)

    def _surroundings(self, lab: Lab) -> Surroundings:
        assert self._clients is not None
        return Surroundings(
            lab,
            self._clients,
            Observers(lab.instances, tell=self._say_once),
            lab.target.connect(),
            [instance.connect() for instance in lab.initiators],
        )


def _release(parts: Surroundings) -> None:
    parts.observers.close()
    for connection in (parts.target, *parts.initiators):
        with contextlib.suppress(Exception):
            connection.close()
