"""The ports of embedded instances."""

import socket

import pytest

from harness.lab import embedded_instances
from harness.lab.embedded_instances import HOST, free_ports


@pytest.fixture(autouse=True)
def _in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every lab tries the ports in the same order."""
    monkeypatch.setattr(embedded_instances.random, "sample", lambda ports, count: [*ports][:count])


def test_labs_that_choose_at_the_same_time_choose_other_ports() -> None:
    with free_ports(3) as first, free_ports(3) as second:
        assert not set(first) & set(second)
        with socket.create_server((HOST, first[0])) as listening:
            assert listening.getsockname()[1] == first[0]


def test_a_port_on_which_something_listens_is_left_out() -> None:
    with free_ports(1) as [port]:
        pass
    with socket.create_server((HOST, port)), free_ports(1) as [other]:
        assert other != port
