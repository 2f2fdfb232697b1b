"""Destinations: the places where the far side of a conversation can be."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.errors import SqlServerError


class Destination:
    """A service of this instance (`router.Local`), or one of the classes below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Remote(Destination):
    """Another instance's broker endpoint."""

    address: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Delayed(Destination):
    """No destination yet; `status` says why (sys.transmission_queue.transmission_status)."""

    status: str


@dataclass(frozen=True, slots=True)
class Unknown(Destination):
    """No such service in the named broker instance, which is here: the dialog fails with -8490."""

    service_name: str


def status_text(number: int, *arguments: object) -> str:
    """Makes the text of an error as transmission_status shows it."""
    return SqlServerError(number, *arguments).text


def parse_address(address: str, route: str = "") -> tuple[str, int]:
    """Parses `TCP://host:port`."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme.upper() != "TCP" or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SqlServerError(9744, "ADDRESS", route)
    return host.strip("[]"), int(port)
