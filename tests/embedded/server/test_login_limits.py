"""Connections without a login, and too many with one: what they may take, and how they are refused."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock
from harness.embedded.server import tds_listener, unproved
from harness.embedded.server.session_ids import SessionIds
from harness.embedded.server.tds_listener import TdsListener
from harness.embedded.tds.packets import LOGIN_SIZE_MAX
from harness.embedded.tsql.instance.instance import USER_SPIDS
from tests.embedded.server.bare_client import LOGIN7, PRELOGIN, PRELOGIN_TYPE, login7, packets
from tests.embedded.tds.captures import SERVER

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Session:
    tx = None
    is_over = False

    def close(self) -> None: ...


@asynccontextmanager
async def listening(**options: Any) -> AsyncIterator[Callable[..., Any]]:
    """A listener that admits everybody; yields what opens a connection to it."""
    driver = RealTimeDriver(SystemClock(), lambda task, error: None, asyncio.get_running_loop())
    listener = TdsListener(
        SERVER, lambda login, spid: (Session(), "master"), scheduler=driver.scheduler, driver=driver, **options
    )
    port = await listener.listen("127.0.0.1", 0)
    opened: list[asyncio.StreamWriter] = []

    async def open_(address: str = "127.0.0.1") -> Streams:
        streams = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        opened.append(streams[1])
        return streams

    try:
        yield open_
    finally:
        for writer in opened:
            writer.close()
        await listener.close()


async def read_message(reader: asyncio.StreamReader) -> bytes:
    header = await reader.readexactly(8)
    return await reader.readexactly(int.from_bytes(header[2:4], "big") - 8)


async def log_in(streams: Streams) -> bytes:
    reader, writer = streams
    writer.write(packets(PRELOGIN_TYPE, PRELOGIN))
    await read_message(reader)
    writer.write(login7("sa", "x"))
    return await read_message(reader)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await reader.read(1) == b""
    except ConnectionResetError:
        return True


def test_a_connection_that_does_not_log_in_is_closed_after_its_time(monkeypatch):
    monkeypatch.setattr(tds_listener, "LOGIN_TIMEOUT_S", 0.05)

    async def scenario() -> None:
        async with listening() as connect:
            silent, half = await connect(), await connect()
            half[1].write(packets(PRELOGIN_TYPE, PRELOGIN))
            await read_message(half[0])
            assert await is_closed(silent[0]) and await is_closed(half[0])

    asyncio.run(scenario())


def test_a_connection_that_has_logged_in_stays(monkeypatch):
    monkeypatch.setattr(tds_listener, "LOGIN_TIMEOUT_S", 0.2)

    async def scenario() -> None:
        async with listening() as connect:
            known, silent = await connect(), await connect()
            await log_in(known)
            assert await is_closed(silent[0])  # its time began later
            known[1].write(packets(0x06, b""))
            assert (await read_message(known[0]))[0] == 0xFD

    asyncio.run(scenario())


def test_the_oldest_of_too_many_connections_without_login_makes_room(monkeypatch, caplog):
    monkeypatch.setattr(unproved, "PLACES", 3)

    async def scenario() -> None:
        async with listening() as connect:
            first, *others = [await connect() for _ in range(4)]
            assert await is_closed(first[0])
            for streams in others:
                assert (await log_in(streams))[0] == 0xE3
            assert "a connection from 127.0.0.1 is closed: it was the oldest of 3 without a login" in caplog.messages

    asyncio.run(scenario())


def test_an_address_with_too_many_connections_without_login_takes_no_place_of_another(monkeypatch):
    monkeypatch.setattr(unproved, "PLACES_OF_ADDRESS", 3)

    async def scenario() -> None:
        async with listening() as connect:
            other = await connect("127.0.0.2")
            first, *_ = [await connect() for _ in range(4)]
            assert await is_closed(first[0])
            assert (await log_in(other))[0] == 0xE3

    asyncio.run(scenario())


def test_a_login_beyond_the_limit_is_refused_by_its_number_and_possible_after_another_ended():
    async def scenario() -> None:
        async with listening(connections_max=2) as connect:
            streams = [await connect() for _ in range(3)]
            answers = [await log_in(one) for one in streams]
            assert [answer[0] for answer in answers] == [0xE3, 0xE3, 0xAA]
            assert int.from_bytes(answers[2][3:7], "little") == 17809
            assert await is_closed(streams[2][0])
            streams[0][1].close()
            while (await log_in(await connect()))[0] != 0xE3:
                await asyncio.sleep(0)

    asyncio.run(scenario())


def test_a_login_for_which_there_is_no_session_id_is_refused_by_its_number():
    spids = SessionIds()
    taken = [spids.take() for _ in USER_SPIDS]

    async def scenario() -> None:
        async with listening(spids=spids) as connect:
            first, second = await connect(), await connect()
            answer = await log_in(first)
            assert answer[0] == 0xAA and int.from_bytes(answer[3:7], "little") == 17809
            spids.give_back(taken.pop())
            assert (await log_in(second))[0] == 0xE3

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "sent",
    [
        b"\x10\x00\xff\xff\0\0\1\0" + bytes(1000),
        (b"\x12\x00" + (1008).to_bytes(2, "big") + b"\0\0\1\0" + bytes(1000)) * (LOGIN_SIZE_MAX // 1000 + 1),
        packets(LOGIN7, bytes(LOGIN_SIZE_MAX + 1)),
    ],
    ids=["a long packet", "a message without end", "a long message"],
)
def test_before_the_login_a_connection_keeps_little(sent):
    async def scenario() -> None:
        async with listening() as connect:
            reader, writer = await connect()
            if sent[0] == LOGIN7:
                writer.write(packets(PRELOGIN_TYPE, PRELOGIN))
                await read_message(reader)
            writer.write(sent)
            assert await is_closed(reader)

    asyncio.run(scenario())
