"""Run a cell in virtual time: the protocol of `sweep.attempt` with clients and observers that live in the world."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.load.plan import Sending
from harness.matrix import Cell
from harness.observe import dialog_pages
from harness.simulation.client_threads import SimulatedClients
from harness.simulation.simulated_lab import SimulatedLab
from harness.simulation.world_observers import SimulatedObservers
from harness.sweep.attempt import Attempt, Equipment, Measured
from harness.sweep.journal import Phases


@dataclass(frozen=True)
class Times:
    """How long the phases of a cell last, in virtual seconds."""

    settle: float  # passes in full, even if the rate is steady before
    measure: float
    drain: float = 60.0


def run(
    lab: SimulatedLab,
    cell: Cell,
    attempt: int,
    times: Times,
    results: Path,
    *,
    pages: dialog_pages.Spread,
    sending: Sending | None = None,
    on_stopped: Callable[[], None] = lambda: None,
) -> Measured:
    """Run a cell on a lab with dialogs and write all its records, or raise CellFailed.

    `pages` are those of the used dialogs; `sending` and `on_stopped` are those of `Attempt`.
    """
    observers = SimulatedObservers(lab)
    equipment = Equipment(
        lab,
        SimulatedClients(lab, lab.world.parameters.client),
        observers,
        lab.target.connect(),
        [instance.connect() for instance in lab.initiators],
    )
    taking_part = [instance.name for instance in lab.initiators[: cell.initiators]]
    try:
        return Attempt(
            cell,
            attempt,
            attempt,
            equipment,
            times,
            results,
            Phases(),
            settle_share_min=1.0,
            sending=sending,
            on_stopped=on_stopped,
            pages={name: pages[name] for name in taking_part if name in pages},
        ).run()
    finally:
        observers.close()
        for connection in (equipment.target, *equipment.initiators):
            connection.close()
