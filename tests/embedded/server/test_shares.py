"""Whether others are busy, as the queue of long requests sees it."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop

from harness.embedded.server.turns import Account, Turns


class Loop:
    """The running loop, which notes delays."""

    def __init__(self) -> None:
        self.call_soon = asyncio.get_running_loop().call_soon
        self.delays_s: list[float] = []

    def call_later(self, delay_s: float, *call: Any) -> None:
        self.delays_s.append(delay_s)
        asyncio.get_running_loop().call_later(delay_s, *call)


class Client(asyncio.Protocol):
    """Calls back when something has arrived."""

    def __init__(self, arrived: Any) -> None:
        self.data_received = arrived


@pytest.mark.parametrize("factory", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_what_arrives_while_a_long_request_has_its_turn_makes_it_wait(factory):
    async def story() -> None:
        (long, client), (other, other_client) = socket.socketpair(), socket.socketpair()
        loop, bob = Loop(), Account("bob")
        turns = Turns(loop)
        given = asyncio.Event()

        def turn(data: bytes) -> None:
            other_client.send(b"SELECT 1")
            turns._running.owed_ns = 1_000_000
            turns._running.stand(SimpleNamespace(account=Account("ann"), end=given.set))

        def arrival(data: bytes) -> None:
            turns.sent(bob)

        running = asyncio.get_running_loop()
        opened = [
            (await running.create_connection(lambda: Client(turn), sock=long))[0],
            (await running.create_connection(lambda: Client(arrival), sock=other))[0],
        ]
        client.send(b"WHILE 1 = 1 ...")
        await given.wait()
        assert turns._last_sender is bob
        assert loop.delays_s[-1] == pytest.approx(0.001)
        for transport in opened:
            transport.close()
        client.close()
        other_client.close()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(story())
