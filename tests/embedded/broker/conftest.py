import pytest

from tests.embedded.broker.world import Instance, World


@pytest.fixture
def latch_ns() -> int:
    """No page latches; a test may override this."""
    return 0


@pytest.fixture
def world(latch_ns: int) -> World:
    return World(latch_ns)


@pytest.fixture
def here(world: World) -> Instance:
    """One instance that talks to itself."""
    return world.instance("here")


@pytest.fixture
def pair(world: World) -> tuple[Instance, Instance]:
    """An initiator and a target, joined by the network."""
    return world.pair()
