"""The testbed on which a sweep's cells run: equipment and dialogs, kept from cell to cell while they fit.

Instances, with their connections and observers, are replaced only when one died, or when the version changes on a lab
that cannot hold several; the clients only when one died; conversations when the group (version, initiators) changes, or
for each cell where queues retain messages. One pool of dialogs serves all dialog ratios, so that the cells of a pair
differ only in which dialogs are used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.lab import dialog_pool, queue_readers
from harness.lab.instances import Instance, LabError, in_parallel
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.load.plan import LoadError
from harness.matrix import Cell, Visit
from harness.observe import dialog_pages
from harness.observe.event_sessions import EventSessions
from harness.observe.queue_sizes import QueueSizes
from harness.reporting import Reporter
from harness.run import attempt as attempts
from harness.run.attempt import Attempt, Measured
from harness.run.cell_failures import not_ready
from harness.run.equipment import LabEquipment, Preflight, locust_clients
from harness.run.phases import Phases
from harness.script_text import ScriptError
from harness.settings import Settings


@dataclass
class _Stage:
    """The equipment of a version, open or not, and the pool of dialogs in its lab."""

    equipment: LabEquipment
    group: tuple[str, int] | None = None  # that the pool serves
    has_conversations: bool = False
    pages: dialog_pages.Spread = field(default_factory=dict)  # of the pool
    queue_sizes: QueueSizes | None = None
    measured: str = ""  # the group whose queues' sizes were recorded last

    def close(self, results: Path) -> None:
        self.group, self.has_conversations = None, False
        with contextlib.suppress(Exception):
            self.group_ends(results)
        self.queue_sizes = None
        self.equipment.close()

    def group_begins(self, group: str, results: Path) -> None:
        if self.queue_sizes is not None:
            self.queue_sizes.group_begins(group, results)
            self.measured = group

    def group_ends(self, results: Path) -> None:
        group, self.measured = self.measured, ""
        if self.queue_sizes is not None and group:
            self.queue_sizes.group_ends(group, results)


class LabTestbed:
    """Implements `run.engine.Testbed` with a real lab and Locust. Use it from the main thread."""

    def __init__(
        self, settings: Settings, topology: Topology, results: Path, cells: Sequence[Cell], reporter: Reporter
    ) -> None:
        self._settings = settings
        self._results = results
        self._reporter = reporter
        self._can = topology.kind.can
        # A lab serves every cell of its version, a pool every cell of its group.
        self._initiators = {
            cell.server_version: max(c.initiators for c in cells if c.server_version == cell.server_version)
            for cell in cells
        }
        self._groups = {group: [cell for cell in cells if cell.group == group] for group in {c.group for c in cells}}
        self._preflight = Preflight(settings, cells, results, reporter)
        self._clients = locust_clients(self._preflight)
        self._stages = {
            version: _Stage(LabEquipment(topology, self._preflight, self._clients)) for version in self._initiators
        }

    def make_ready(self, cell: Visit, phases: Phases) -> None:
        try:
            self._make_ready(cell.cell, phases)
        except (LabError, ScriptError, LoadError, ChildError) as error:
            opened = self._stages[cell.cell.server_version].equipment.parts
            raise not_ready(error, opened.lab if opened else None) from None

    def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
        stage = self._stages[cell.cell.server_version]
        parts = stage.equipment.parts
        assert parts is not None
        events = EventSessions(self._preflight.note_once) if self._settings.events and cell.block == 1 else None
        attempted = Attempt(cell, attempt, run, self._settings, self._results, events=events, pages=stage.pages)
        return attempts.run(attempted, parts, phases)

    def write_to(self, results: Path, settings: Settings) -> None:
        """Run the next cells with these settings, and write their records to this folder."""
        self._results, self._settings = results, settings

    def tear_down(self) -> None:
        self._close_stages()
        self._clients.end_cell()

    def close(self) -> None:
        self._close_stages()
        self._clients.close()

    def _close_stages(self) -> None:
        for stage in self._stages.values():
            stage.close(self._results)

    def _make_ready(self, cell: Cell, phases: Phases) -> None:
        version = cell.server_version
        stage = self._stages[version]
        with phases.phase("clients"):
            self._clients.launch(cell.initiators)
        if not self._can.holds_all_versions:
            for other in self._stages.values():
                if other is not stage:
                    other.close(self._results)
        if stage.equipment.parts is None:
            with phases.phase("lab"):
                parts = stage.equipment.open(version, self._initiators[version])
            if self._can.has_data_files:
                stage.queue_sizes = QueueSizes(parts.lab, self._preflight.note_once)
        is_new_group = stage.group != cell.group
        if is_new_group:
            with phases.phase("dialogs"):
                stage.group_ends(self._results)
                self._build_pool(stage, cell)
        with phases.phase("readers"):
            self._rest_readers(stage)
            if is_new_group:
                stage.group_begins(f"i{cell.initiators}-v{version}", self._results)

    def _rest_readers(self, stage: _Stage) -> None:
        parts = stage.equipment.parts
        assert parts is not None
        timeout_s = parts.lab.workload.target.receive_timeout_ms / 1000 + queue_readers.END_WITHIN_S
        queue_readers.wait_until_at_most(queue_readers.AT_REST, parts.lab, parts.target, timeout_s=timeout_s)

    def _build_pool(self, stage: _Stage, cell: Cell) -> None:
        parts = stage.equipment.without_conversations() if stage.has_conversations else stage.equipment.parts
        assert parts is not None
        stage.group, stage.has_conversations = None, True
        group = self._groups[cell.group]
        begun_beforehand = 0 if parts.lab.workload.client.begins_dialogs else max(cell_.dialogs for cell_ in group)
        dialog_pool.build(parts.lab, initiators=cell.initiators, dialogs=begun_beforehand)
        stage.pages = self._spread(parts.lab.initiators[: cell.initiators])
        if stage.pages and self._can.has_data_files:  # else pages are modelled: where dialogs lie proves nothing
            for ratio in sorted({each.dialog_ratio for each in group}):
                threads = max(each.threads for each in group if each.dialog_ratio == ratio)
                summary = dialog_pages.summary(dialog_pages.used(stage.pages, ratio, threads))
                self._reporter.note(f"dialogs of i{cell.initiators}-r{ratio}-v{cell.server_version}: {summary}")
        # Retained messages of a cell would be in the next one's way: it needs dialogs of its own.
        stage.group = None if parts.lab.workload.queue.retention else cell.group

    def _spread(self, taking_part: Sequence[Instance]) -> dialog_pages.Spread:
        """The pages of the new dialogs, without initiators that do not show them, which is noted once."""

        def located(instance: Instance) -> list[dialog_pages.DialogPage] | str:
            try:
                return dialog_pages.located(instance)
            except (LabError, ScriptError) as error:
                return str(error)

        pages_of = in_parallel(located, taking_part)
        if reasons := [pages for pages in pages_of if isinstance(pages, str)]:
            self._preflight.note_once(f"the pages on which dialogs lie are not recorded: {'; '.join(reasons)}")
        by_instance = zip(taking_part, pages_of, strict=True)
        return {one.name: pages for one, pages in by_instance if pages and not isinstance(pages, str)}
