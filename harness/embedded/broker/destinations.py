"""Where the far side of a conversation is."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.errors import SqlServerError


class Destination:
    """A service of this instance (`router.Local`), or one of those below."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Remote(Destination):
    """Another instance's broker endpoint."""

    address: tuple[str, int]


@dataclass(frozen=True, slots=True)
class Delayed(Destination):
    """Nowhere for now; `status` says why (sys.transmission_queue.transmission_status)."""

    status: str


@dataclass(frozen=True, slots=True)
class Unknown(Destination):
    """The named broker instance is here and does not have the service: the dialog fails with -8490."""

    service_name: str


def status_text(number: int, *arguments: object) -> str:
    """The text of an error, as transmission_status shows it."""
    return SqlServerError(number, *arguments).text


def parse_address(address: str, route: str = "") -> tuple[str, int]:
    """The host and port of `TCP://host:port`."""
    scheme, _, rest = address.partition("://")
    host, _, port = rest.rpartition(":")
    if scheme.upper() != "TCP" or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise SqlServerError(9744, "ADDRESS", route)
    return host.strip("[]"), int(port)
