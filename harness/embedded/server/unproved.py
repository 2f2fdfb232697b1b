"""Connections whose peer has not proved yet who it is: they get few places and little time.

Both ports have them: the TDS port until the login, the broker's until the end of the handshake. An honest peer proves
itself in milliseconds. So a connection that finds no place, or none of its address, takes that of the oldest: strangers
that say nothing lose theirs, and peers still get in.
"""

import asyncio
from typing import Protocol

PLACES = 256  # at a port
PLACES_OF_ADDRESS = 192  # of them, for one address: it leaves others some


class Unproved(Protocol):
    def cut_off(self, reason: str) -> None:
        """Close the connection at once, and log the reason."""
        ...


class WaitingRoom:
    """The unproved connections at a port."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Unproved, tuple[str, asyncio.TimerHandle]] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, connection: Unproved, address: str, *, timeout_s: float) -> None:
        of_address = [other for other, (others_address, _) in self._waiting.items() if others_address == address]
        if len(of_address) >= PLACES_OF_ADDRESS:
            self._end(of_address[0], f"it was the oldest of {len(of_address)} from its address without a login")
        elif len(self) >= PLACES:
            self._end(next(iter(self._waiting)), f"it was the oldest of {len(self)} without a login")
        timer = self._loop.call_later(timeout_s, self._end, connection, f"no login within {timeout_s:g} s")
        self._waiting[connection] = address, timer

    def leave(self, connection: Unproved) -> None:
        """The peer has proved who it is, or has gone."""
        if connection in self._waiting:
            _, timer = self._waiting.pop(connection)
            timer.cancel()

    def _end(self, connection: Unproved, reason: str) -> None:
        self.leave(connection)
        connection.cut_off(reason)
