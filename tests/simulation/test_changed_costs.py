"""A world with changed costs charges the same as a world built with them."""

from collections.abc import Sequence

import pytest

from harness.embedded.broker.frames import DialogHeader, MessageFrame
from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import Waiting
from harness.simulation import calibration, parameters
from harness.simulation.parameters import WORKS, Parameters
from harness.simulation.world import World

PAPER = parameters.read("paper")
FRAME = MessageFrame(
    "conversation", True, 0, "M", bytes(1000), False, 5, DialogHeader("S", None, "S", "guid", "C", None, False, None)
)


class Listener:
    """A broker that notes when frames have arrived."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.arrived_at_ns = 0

    def on_frames(self, peer: object, frames: Sequence[object]) -> None:
        self.arrived_at_ns = self.world.clock.now_ns

    def on_connection_state(self, address: tuple[str, int], up: bool, error: str) -> None: ...


def world_of(hardware: Parameters) -> World:
    world = World(1, hardware)
    world.server("target", "2008")
    return world


def charged(world: World) -> dict[str, object]:
    """Return the duration in ns of each kind of work, and the clients' costs."""
    server = world.servers["target"]
    platform, store = server.computer, server.store
    began_ns, took = world.clock.now_ns, {}

    def timed(name: str, work: Waiting[None]) -> Waiting[None]:
        yield from work
        took[name] = world.clock.now_ns - began_ns

    def touch() -> Waiting[None]:
        yield from platform.latch(Page(7, 1, 16))

    def commit(rows: int) -> Waiting[None]:
        yield from store.submit([("t", key, (bytes(1000),)) for key in range(rows)]).wait()

    for work in WORKS:
        used_ns = server.computer.cores._used_ns
        list(platform.cpu(work, 1, 1024))
        took[work] = server.computer.cores._used_ns - used_ns
    world.sleep(1)
    began_ns = world.clock.now_ns
    for number in range(4):
        server.scheduler.spawn(timed(f"touch {number}", touch()), "touch")
    server.scheduler.spawn(timed("one write", commit(30)), "commit")
    listener = Listener(world)
    transport = world.network.transport("listener", server.scheduler)
    transport.broker = listener
    transport.listen("", 1)
    world.network.transports["target"].send(("listener", 1), [FRAME])
    world.sleep(1)
    began_ns = world.clock.now_ns
    server.scheduler.spawn(timed("several writes", commit(300)), "commit")
    world.sleep(1)
    return took | {"transfer": listener.arrived_at_ns, "client": world.parameters.client}


@pytest.mark.parametrize("name", calibration.charged(PAPER))
def test_changed_costs_charge_what_a_world_built_with_them_charges(name):
    dearer = PAPER.with_values({name: PAPER.value(name) * 1.2})
    repriced = world_of(PAPER)
    repriced.change_costs(dearer)
    found = charged(repriced)
    assert found == charged(world_of(dearer))
    assert found != charged(world_of(PAPER))
