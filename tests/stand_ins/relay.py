"""TCP relays that a test cuts or makes slow: what connects to one reaches the address behind it."""

import asyncio
import contextlib
import threading
from typing import Literal

Address = tuple[str, int]
State = Literal["well", "slow", "cut"]
PIECE, DELAY_S = 4096, 0.05  # bytes at a time and the time that they take, while a relay is slow


class Relays:
    """Relays in a thread of their own; while one is cut, its connections are reset, and so are new ones."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._states: dict[Address, State] = {}
        self._open: dict[asyncio.StreamWriter, Address] = {}
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def add(self, listening: Address, behind: Address) -> None:
        """Relay from one address to another."""

        async def start() -> None:
            self._states[listening] = "well"
            await asyncio.start_server(lambda *streams: self._serve(listening, behind, *streams), *listening)

        asyncio.run_coroutine_threadsafe(start(), self._loop).result()

    def set(self, listening: Address, state: State) -> None:
        def change() -> None:
            self._states[listening] = state
            if state == "cut":
                for writer in [writer for writer, address in self._open.items() if address == listening]:
                    writer.transport.abort()

        self._loop.call_soon_threadsafe(change)

    async def _serve(
        self, listening: Address, behind: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            if self._states[listening] == "cut":
                writer.transport.abort()
                return
            there, back = await asyncio.open_connection(*behind)
            self._open[writer] = self._open[back] = listening
            try:
                await asyncio.gather(self._pass(listening, reader, back), self._pass(listening, there, writer))
            finally:
                for each in (writer, back):
                    del self._open[each]
                    each.transport.abort()

    async def _pass(self, listening: Address, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(PIECE):
            if self._states[listening] == "slow":
                await asyncio.sleep(DELAY_S)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError  # the other direction ends too
