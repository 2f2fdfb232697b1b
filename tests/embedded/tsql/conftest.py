import pytest

from tests.embedded.tsql.sides import TABLE, Side, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def side(world: World, request: pytest.FixtureRequest) -> Side:
    """An instance whose session is in a database of its own, with what the module's SET_UP makes, or a table."""
    side = world.side("Here")
    side.run("CREATE DATABASE db;")
    side.run("USE db;")
    side.set_up(getattr(request.module, "SET_UP", TABLE))
    return side
