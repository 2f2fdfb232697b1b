import pytest

from tests.embedded.broker.world import Instance, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def here(world: World) -> Instance:
    """One instance that talks to itself."""
    return world.instance("here")


@pytest.fixture
def pair(world: World) -> tuple[Instance, Instance]:
    """An initiator and a target, joined by the network."""
    return world.pair()
