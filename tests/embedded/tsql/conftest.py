import pytest

from tests.embedded.tsql.sides import Side, World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def side(world: World) -> Side:
    """An instance whose session is in a database of its own, with a table."""
    side = world.side("Here")
    side.run("CREATE DATABASE db;")
    side.run("USE db;")
    side.run(
        "CREATE TABLE dbo.t (id int IDENTITY NOT NULL CONSTRAINT PK_t PRIMARY KEY, n int NOT NULL, name nvarchar(10) NULL);"
    )
    return side
