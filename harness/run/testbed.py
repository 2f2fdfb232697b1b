"""The testbed on which a run's items are attempted: equipment and dialogs, kept from item to item while they fit.

Instances, with their connections and observers, are replaced when one died, when a block begins, so that what differs
by chance from start to start is in the spread of the blocks (unless they are to stay warm), and when the version
changes on a lab that cannot hold several; the clients only when one died; conversations when an item needs other
dialogs, or has spent them (`harness.run.arrangement`), as where queues retain messages. One pool of dialogs serves all
cells of a group (version, initiators), whatever their dialog ratio, so that the cells of a pair differ only in which
dialogs are used. A lab of your own servers is linked anew for each block; nothing restarts a server.
"""

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from harness.definitions.load_model import OpenLoop
from harness.definitions.matrix import Cell, label
from harness.definitions.whitepaper import MAX_QUEUE_READERS, RECEIVE_TOP
from harness.files.script_text import ScriptError
from harness.files.workload_file import Receiving
from harness.lab import dialog_pool, link, queue_readers
from harness.lab.instances import Instance, Lab, LabError, in_parallel
from harness.lab.opening import Topology
from harness.lab.processes import ChildError
from harness.load.plan import LoadError
from harness.observe import dialog_pages
from harness.observe.event_sessions import EventSessions
from harness.observe.queue_sizes import QueueSizes
from harness.run import attempt as attempts
from harness.run import outside_readers
from harness.run.arrangement import Arrangement, Item, Pool, used_dialogs
from harness.run.attempt import Attempt, Equipment, Measured, Times
from harness.run.cell_failures import not_ready
from harness.run.equipment import LabEquipment, Preflight, locust_clients
from harness.run.phases import Phases
from harness.run.restart import Restart


@dataclass
class _Stage:
    """The equipment of a version, open or not, and the pool of dialogs in its lab."""

    equipment: LabEquipment
    pool: Pool | None = None
    has_conversations: bool = False
    pages: dialog_pages.Spread = field(default_factory=dict)  # of the pool
    queue_sizes: QueueSizes | None = None
    block: int = 0  # of the last item
    is_first_of_group: bool = False  # whether no cell has run on the pool yet

    def close(self, results: Path) -> None:
        self.pool, self.has_conversations = None, False
        self.queue_sizes = None
        self.equipment.close()


# How the target receives once the clients of an arrangement have stopped, unless it processes in batch: slow ones must
# not take an hour to drain. These readers end soon after the queue is empty.
DRAINING = Receiving(receive_top=RECEIVE_TOP, receive_timeout_ms=100, max_queue_readers=MAX_QUEUE_READERS)

LoadOf = Callable[[Any], OpenLoop | None]  # of an item; raises CellFailed where an item has no load yet


class LabTestbed:
    """Implements `run.in_process.Testbed` with a real lab and Locust. Use it from the main thread."""

    def __init__(self, topology: Topology, preflight: Preflight, load_of: LoadOf | None = None) -> None:
        """`load_of` gives each item's load in place of the settings'."""
        settings, cells = preflight.settings, preflight.cells
        self._settings = settings
        self._results = preflight.results
        self._reporter = preflight.reporter
        self._load_of = load_of or (lambda item: settings.open_loop)
        self._can = topology.kind.can
        # A lab serves every cell of its version, a pool every cell of its group.
        self._initiators = {
            cell.server_version: max(c.initiators for c in cells if c.server_version == cell.server_version)
            for cell in cells
        }
        self._groups = {group: [cell for cell in cells if cell.group == group] for group in {c.group for c in cells}}
        self._preflight = preflight
        self._clients = locust_clients(self._preflight)
        self._stages = {
            version: _Stage(LabEquipment(topology, self._preflight, self._clients)) for version in self._initiators
        }

    def make_ready(self, cell: Item, phases: Phases) -> None:
        try:
            self._make_ready(cell, phases)
        except (LabError, ScriptError, LoadError, ChildError) as error:
            opened = self._stages[cell.cell.server_version].equipment.parts
            raise not_ready(error, opened.lab if opened else None) from None

    def run(self, cell: Item, attempt: int, run: int, phases: Phases) -> Measured:
        stage, arrangement = self._stages[cell.cell.server_version], cell.arrangement
        parts = stage.equipment.parts
        assert parts is not None
        stage.has_conversations = True
        if arrangement.spends_its_dialogs if arrangement else parts.lab.workload.queue.retention:
            stage.pool = None
        is_first, stage.is_first_of_group = stage.is_first_of_group, False
        attempted = Attempt(
            cell.visit,
            attempt,
            run,
            Times.of(self._settings, self._load_of(cell), attempt, is_first_of_group=is_first),
            cell.folder(self._results),
            events=EventSessions(self._preflight.note_once) if self._settings.events and cell.block == 1 else None,
            pages=stage.pages,
            others_before_percent=self._preflight.others_percent,
            stolen_before_percent=self._preflight.stolen_percent(),
        )
        if self._settings.restart_target and cell.block == 1 + self._settings.repeats // 2 and attempt == 1:
            restart = Restart(parts, self._reporter.note)
            attempted = replace(attempted, while_sending=restart.begins, on_stopped=restart.ends)
        if arrangement is None:
            return attempts.run(attempted, parts, phases)
        attempted = replace(attempted, **_arranged(parts, cell.cell, arrangement))
        if not arrangement.outside_readers:
            return attempts.run(attempted, parts, phases)
        try:
            with outside_readers.running(parts.lab, arrangement.workload.target, attempted.results / "activator"):
                return attempts.run(attempted, parts, phases)
        except (LabError, ScriptError) as error:
            raise not_ready(error, parts.lab) from None

    def tear_down(self) -> None:
        self._close_stages()
        self._clients.end_cell()

    def close(self) -> None:
        self._close_stages()
        self._clients.close()

    def _close_stages(self) -> None:
        for stage in self._stages.values():
            stage.close(self._results)

    def _make_ready(self, item: Item, phases: Phases) -> None:
        cell, arrangement = item.cell, item.arrangement
        version = cell.server_version
        stage = self._stages[version]
        if self._settings.blocks == "fresh" and item.block > stage.block > 0:
            with phases.phase("lab"):
                stage.close(self._results)
        stage.block = item.block
        with phases.phase("clients"):
            self._clients.launch(cell.initiators)
        if not self._can.holds_all_versions:
            for other in self._stages.values():
                if other is not stage:
                    other.close(self._results)
        if stage.equipment.parts is None:
            with phases.phase("lab"):
                parts = stage.equipment.open(version, self._initiators[version])
            is_soak = self._settings.soak
            if (self._can.has_data_files or is_soak) and arrangement is None:
                stage.queue_sizes = QueueSizes(parts.lab, self._preflight.note_once, rebuilds=not is_soak)
        assert stage.equipment.parts is not None
        lab = stage.equipment.parts.lab
        if arrangement is not None:
            with phases.phase("dialogs"):
                link.retain(lab, retention=arrangement.workload.queue.retention)
                self._build_pool(stage, arrangement.pool(cell))
            with phases.phase("receiving"):
                link.change_workload(lab, arrangement.workload)
                if arrangement.batch:
                    link.stop_activation(lab)
            return
        pool = self._pool_of_group(lab, cell)
        is_new_group = stage.pool != pool
        if is_new_group:
            with phases.phase("dialogs"):
                self._build_pool(stage, pool)
                if pool.dialogs:
                    self._locate(stage, lab, cell)
            stage.is_first_of_group = True
        with phases.phase("readers"):
            self._rest_readers(stage)
            if stage.queue_sizes is not None:
                stage.queue_sizes.cell_begins(label(cell.id, item.block), self._results)

    def _rest_readers(self, stage: _Stage) -> None:
        parts = stage.equipment.parts
        assert parts is not None
        timeout_s = parts.lab.workload.target.receive_timeout_ms / 1000 + queue_readers.END_WITHIN_S
        queue_readers.wait_until_at_most(queue_readers.AT_REST, parts.lab, parts.target, timeout_s=timeout_s)

    def _pool_of_group(self, lab: Lab, cell: Cell) -> Pool:
        begins_dialogs = lab.workload.client.begins_dialogs
        group = self._groups[cell.group]
        used = () if self._settings.kind.warms_up_all(self._settings.warm_up) else used_dialogs(group)
        return Pool(cell.initiators, 0 if begins_dialogs else max(each.dialogs for each in group), used=used)

    def _build_pool(self, stage: _Stage, pool: Pool) -> None:
        """Begin the dialogs, and end all others, unless they exist."""
        if stage.pool == pool:
            return
        stage.pool = None
        parts = stage.equipment.without_conversations() if stage.has_conversations else stage.equipment.parts
        assert parts is not None
        stage.has_conversations = pool.dialogs > 0
        if pool.dialogs:
            dialog_pool.build(parts.lab, **pool._asdict())
        stage.pool = pool

    def _locate(self, stage: _Stage, lab: Lab, cell: Cell) -> None:
        """Find the pages on which the pool's dialogs lie, and say what they share."""
        taking_part = lab.initiators[: cell.initiators]
        stage.pages = self._spread(taking_part)
        if not self._can.has_data_files:
            return  # pages are modelled: where dialogs lie proves nothing
        for ratio, threads in used_dialogs(self._groups[cell.group]):
            lines = []
            with contextlib.suppress(LabError, ScriptError):  # an estimate is no reason to fail a cell
                lines += [
                    dialog_pages.estimate(instance, ratio, threads)
                    for instance in taking_part
                    if instance.name not in stage.pages
                ]
            if stage.pages:
                lines.append(dialog_pages.summary(dialog_pages.used(stage.pages, ratio, threads)))
                try:
                    lines.append(dialog_pages.at_target(lab.target, taking_part, ratio, threads))
                except (LabError, ScriptError) as error:
                    self._preflight.note_once(f"the pages of sys.sysdercv are not known: {error}")
            for line in lines:
                self._reporter.note(f"dialogs of i{cell.initiators}-r{ratio}-v{cell.server_version}: {line}")

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


def _arranged(parts: Equipment, cell: Cell, arrangement: Arrangement) -> dict[str, Any]:
    """Return the fields of an attempt that follow from its arrangement."""
    target = arrangement.workload.target
    sending = attempts.sending_of(parts.lab, parts.initiators, cell, arrangement)
    how: dict[str, Any] = {"sending": sending, "in_batch": arrangement.batch}
    if not arrangement.outside_readers:  # they drain the queue as they are
        draining = target if arrangement.batch else DRAINING
        how["on_stopped"] = partial(link.apply_to_new_readers, parts.lab, draining)
    return how
