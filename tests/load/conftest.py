"""Locust patches the standard library when it is imported; in this process its parts are tested without."""

import os
from collections.abc import Iterator

os.environ["LOCUST_SKIP_MONKEY_PATCH"] = "1"

import pytest

from harness.lab import drivers
from tests.load import echo_server


@pytest.fixture(scope="session")
def echo() -> Iterator[echo_server.EchoServer]:
    with echo_server.running() as server:
        yield server


@pytest.fixture(scope="session", params=["microsoft", "freetds"])
def echo_by_driver(request: pytest.FixtureRequest) -> Iterator[echo_server.EchoServer]:
    try:
        drivers.choose(request.param)
    except drivers.NoDriver as error:
        pytest.skip(str(error))
    with echo_server.running(request.param) as server:
        yield server
