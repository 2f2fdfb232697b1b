"""The lab in virtual time: a model. Everything that runs on a lab runs on this one, by the same scripts.

`open` gives empty instances, as every lab does; `harness.lab.link` installs the workload.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.lab.instances import Lab
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_instance import SimulatedInstance
from harness.simulation.world import World


@dataclass
class SimulatedLab(Lab):
    """A lab with its world."""

    world: World = field(kw_only=True)


def open(
    parameters: Parameters, *, version: str, initiators: int, seed: int, is_recoverable: bool = False
) -> SimulatedLab:
    """A target and so many initiators, empty, at the beginning of time; `is_recoverable` as of `World`."""
    world = World(seed, parameters, is_recoverable=is_recoverable)
    numbers = range(1, initiators + 1)
    return SimulatedLab(
        "simulated",
        version,
        SimulatedInstance.on(world.server("target", version), "SSBTarget"),
        [SimulatedInstance.on(world.server(f"initiator-{n}", version), f"SSBInitiator{n}") for n in numbers],
        Path(),
        clock=world,
        world=world,
    )
