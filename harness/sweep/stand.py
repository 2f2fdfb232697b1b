"""The stand on which cells run: a lab, its dialogs, clients and observers, kept from cell to cell while they fit.

Expensive things are changed only when they must be: instances when the version changes or one died; conversations when
the group (version, initiators, ratio) changes; clients, connections and observers with the instances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from harness.lab import dialog_pool
from harness.lab.instances import Instance, Lab, LabError, in_parallel
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.lab.scripts import ScriptError
from harness.load.plan import LoadError
from harness.matrix import Cell
from harness.observe import dialog_pages
from harness.settings import Settings
from harness.sweep.cell import Attempt, Measured, NotReady
from harness.sweep.opened import OpenedLab
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
        self._results = results
        self._on_rate = on_rate
        self._on_note = on_note
        # A lab serves every cell of its version, a pool every cell of its group.
        self._initiators = {
            cell.server_version: max(c.initiators for c in cells if c.server_version == cell.server_version)
            for cell in cells
        }
        self._threads = {cell.group: max(c.threads for c in cells if c.group == cell.group) for cell in cells}
        self._opened = OpenedLab(settings, topology, results, on_lab=on_lab, on_note=on_note, watch=watch)
        self._group: tuple[str, int, int] | None = None
        self._pool_used = False
        self._pages: dialog_pages.Spread = {}  # of the pool that stands

    def make_ready(self, cell: Cell, phases: Phases) -> None:
        try:
            parts = self._opened.parts
            if parts is not None and parts.lab.version != cell.server_version:
                self._close_lab()
            if self._opened.parts is None:
                with phases.phase("lab"):
                    self._opened.open(cell.server_version, self._initiators[cell.server_version])
            if self._group != cell.group:
                with phases.phase("dialogs"):
                    self._build_pool(cell)
        except (LabError, ScriptError, LoadError, ChildError) as error:
            raise NotReady(str(error)) from None

    def run(self, cell: Cell, attempt: int, run: int, phases: Phases) -> Measured:
        assert self._opened.parts is not None
        measured = Attempt(
            cell,
            attempt,
            run,
            self._opened.parts,
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
        self._group, self._pool_used = None, False
        self._opened.close()

    def _close_lab(self) -> None:
        self._group, self._pool_used = None, False
        self._opened.close_lab()

    def _build_pool(self, cell: Cell) -> None:
        assert self._opened.parts is not None
        parts = self._opened.without_conversations() if self._pool_used else self._opened.parts
        self._group, self._pool_used = None, True
        dialog_pool.build(
            parts.lab,
            initiators=cell.initiators,
            used_dialogs=self._threads[cell.group],
            dialog_ratio=cell.dialog_ratio,
        )
        self._pages = self._spread(parts.lab.initiators[: cell.initiators])
        if self._pages:
            pool = f"i{cell.initiators}-r{cell.dialog_ratio}-v{cell.server_version}"
            self._on_note(f"dialogs of {pool}: {dialog_pages.summary(self._pages)}")
        self._group = cell.group

    def _spread(self, taking_part: Sequence[Instance]) -> dialog_pages.Spread:
        """Where the dialogs lie that were just begun; empty where an initiator does not tell, which is said once."""
        try:
            return dict(
                zip([one.name for one in taking_part], in_parallel(dialog_pages.located, taking_part), strict=True)
            )
        except (LabError, ScriptError) as error:
            self._opened.say_once(f"on which pages the dialogs lie is not recorded: {error}")
            return {}
