"""What the broker costs: microseconds of processor time a message, by side, and durable messages per second.

Two engines in one process, each with a file of its own; frames are packed and unpacked, but no socket carries them. The
first table holds the sides apart: everything is sent while the network keeps the records; then the target gets them, and
receives; then the initiator gets the acknowledgements. The second lets both run at once. The last line says what
security adds: encrypted dialogs, and records that are encrypted too, against neither, in turns.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.embedded.broker import ddl_databases, ddl_network, ddl_principals, ddl_services
from harness.embedded.broker.database import Database
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.engine import Engine
from harness.embedded.broker.frames import RECORD_FRAMES_MAX, Frame, pack_frames, unpack_frames
from harness.embedded.runtime.realtime import RealTimeDriver, SystemClock, SystemEntropy
from harness.embedded.runtime.tasks import Task, Waiting
from harness.embedded.server.broker_handshake import Protection
from harness.embedded.server.cryptography import ServerKeys
from harness.embedded.store.disk import FolderDisk
from harness.embedded.store.file_store import FileStore, Threads

BODY = bytes(100)
DIALOG_RATIO = 150
DIALOG_MESSAGES_MAX = 60  # below the broker's window, so that nothing waits for an acknowledgement


@dataclass(frozen=True)
class Size:
    threads: tuple[int, ...]
    messages: int
    trials: int


FULL = Size((1, 10, 50), messages=5_000, trials=10)
SMALLEST = Size((2,), messages=10, trials=1)


class Wire:
    """Records between two engines, encrypted if `is_secured`; `is_open` False keeps them."""

    def __init__(self, loop: asyncio.AbstractEventLoop, is_secured: bool) -> None:
        self.loop = loop
        self.is_secured = is_secured
        keys = {port: bytes([port]) * 32 for port in (1, 2)}
        self.sending = {port: Protection(key, is_encrypted=True) for port, key in keys.items()}
        self.receiving = {port: Protection(key, is_encrypted=True) for port, key in keys.items()}
        self.is_open = True
        self.kept: list[tuple[int, bytes]] = []
        self.engines: dict[int, Engine] = {}

    def carry(self, port: int, record: bytes) -> None:
        if self.is_secured:
            record = self.sending[port].seal(record)
        if self.is_open:
            self.loop.call_soon(self.arrive, port, record)
        else:
            self.kept.append((port, record))

    def arrive(self, port: int, record: bytes) -> None:
        opened = self.receiving[port].open(record) if self.is_secured else record
        self.engines[port].on_frames("benchmark", unpack_frames(opened))

    async def let_go(self, done: Callable[[], bool]) -> None:
        """Hand out what was kept, a record a turn, until it has had its effect."""
        kept, self.kept = self.kept, []
        for port, record in kept:
            self.arrive(port, record)
            await asyncio.sleep(0)
        while not done():
            await asyncio.sleep(0.0005)


class WireTransport:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def listen(self, host: str, port: int) -> None: ...

    def stop(self) -> None: ...

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        for at in range(0, len(frames), RECORD_FRAMES_MAX):
            self._wire.carry(address[1], pack_frames(frames[at : at + RECORD_FRAMES_MAX]))


class Side:
    def __init__(self, wire: Wire, folder: Path, port: int) -> None:
        self.port = port
        self.scheduler = RealTimeDriver(SystemClock(), _report, wire.loop).scheduler
        (data := folder / str(port)).mkdir()
        background = Threads(wire.loop.call_soon_threadsafe)
        store = FileStore(
            FolderDisk(data), scheduler=self.scheduler, background=background, lost=_lost, identity=os.urandom(16)
        )
        self.engine = wire.engines[port] = Engine(
            name=str(port),
            version="2008",
            scheduler=self.scheduler,
            entropy=SystemEntropy(),
            store=store,
            transport=WireTransport(wire),
            keys=ServerKeys(os.urandom(32)) if wire.is_secured else None,
        )
        self.engine.recover()
        self.is_secured = wire.is_secured

    @property
    def database(self) -> Database:
        return self.engine.databases["lab"]

    async def run(self, generator: Waiting[Any]) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def body() -> Waiting[None]:
            future.set_result((yield from generator))

        self.scheduler.spawn(body(), "benchmark")
        return await future

    def set_up(self) -> Waiting[None]:
        tx = self.engine.transactions.begin()
        database = ddl_databases.create_database(tx, self.engine.databases, "lab")
        ddl_services.create_message_type(tx, database.catalog, "M")
        ddl_services.create_contract(tx, database.catalog, "C", usages=[("M", "INITIATOR")])
        ddl_services.create_queue(tx, database.catalog, "dbo", "q", QueueOptions())
        ddl_services.create_service(tx, database.catalog, "S", queue="dbo.q", contracts=["C"])
        ddl_services.set_sender(tx, database.catalog, "S", "public", may=True)
        ddl_network.create_endpoint(tx, self.engine.link, "broker", state="STARTED", port=self.port)
        yield from tx.commit()

    def route_to(self, other: Side) -> Waiting[None]:
        tx = self.engine.transactions.begin()
        instance = other.database.catalog.service_broker_guid
        address = f"TCP://wire:{other.port}"
        ddl_network.create_route(
            tx, self.database.catalog, "route", service_name="S", broker_instance=instance, address=address
        )
        yield from tx.commit()

    def make_certificate(self) -> Waiting[None]:
        tx = self.engine.transactions.begin()
        ddl_principals.create_master_key(tx, self.database.catalog)
        ddl_principals.create_certificate(tx, self.database.catalog, "own", subject=str(self.port))
        yield from tx.commit()

    def trust(self, other: Side) -> Waiting[None]:
        catalog, blob = self.database.catalog, other.database.catalog.principals.certificates["own"].blob
        tx = self.engine.transactions.begin()
        ddl_principals.create_user(tx, catalog, self.engine.logins, "other")
        ddl_principals.create_certificate(tx, catalog, "theirs", owner="other", blob=blob)
        ddl_network.create_remote_service_binding(tx, catalog, "binding", to_service="S", user="other")
        yield from tx.commit()

    def begin(self, other: Side, count: int) -> Waiting[list[str]]:
        """Dialogs in use: every 150th of a pool."""
        tx = self.engine.transactions.begin()
        handles = []
        for _ in range(count * DIALOG_RATIO):
            handle = yield from self.engine.dialogs.begin(
                tx,
                self.database,
                from_service="S",
                to_service="S",
                to_broker_instance=other.database.catalog.service_broker_guid,
                contract="C",
                encryption=self.is_secured,
            )
            handles.append(handle)
        yield from tx.commit()
        return handles[::DIALOG_RATIO]

    def send(self, handle: str, count: int) -> Waiting[None]:
        for _ in range(count):
            tx = self.engine.transactions.begin()
            yield from self.engine.dialogs.send(tx, self.database, [handle], "M", BODY)
            yield from tx.commit()

    def receive(self, count: int) -> Waiting[None]:
        queue = self.database.catalog.queues["dbo.q"]
        while count > 0:
            tx = self.engine.transactions.begin()
            rows = yield from self.engine.receiving.receive(tx, self.database, queue, top=10_000, wait=True)
            for row in rows:
                _ = (
                    row.incoming.terms.conversation_handle,
                    row.message_sequence_number,
                    row.message_type.name,
                    row.message_body,
                )
            yield from tx.commit()
            count -= len(rows)


def _lost(error: Exception) -> None:
    raise SystemExit(f"the data folder failed: {error}")


def _report(task: Task, error: BaseException) -> None:
    raise SystemExit(f"{task.name}: {error!r}")


async def warm_up(initiator: Side, target: Side, handles: Sequence[str]) -> None:
    """Send a first message on each dialog: the target makes its endpoint and gets its keys."""
    receiving = asyncio.ensure_future(target.run(target.receive(len(handles))))
    await asyncio.gather(*(initiator.run(initiator.send(handle, 1)) for handle in handles))
    await receiving
    while initiator.database.transmission_queue:
        await asyncio.sleep(0.0005)


async def measure(threads: int, messages: int, apart: bool, is_secured: bool = False) -> list[float]:
    """Microseconds of processor time a message: send, arrive and receive, acknowledge; or messages per second."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        wire = Wire(asyncio.get_running_loop(), is_secured)
        initiator, target = Side(wire, Path(folder), 1), Side(wire, Path(folder), 2)
        for side in (initiator, target):
            await side.run(side.set_up())
        await initiator.run(initiator.route_to(target))
        await target.run(target.route_to(initiator))
        if is_secured:
            for side in (initiator, target):
                await side.run(side.make_certificate())
            await initiator.run(initiator.trust(target))
            await target.run(target.trust(initiator))
        handles = await initiator.run(initiator.begin(target, threads))
        each = min(messages // threads, DIALOG_MESSAGES_MAX) if apart else messages // threads
        messages = each * threads
        waiting = initiator.database.transmission_queue
        try:
            await warm_up(initiator, target, handles)
            wire.is_open = not apart
            started, used = time.perf_counter(), time.process_time()
            receiving = None if apart else asyncio.ensure_future(target.run(target.receive(messages)))
            await asyncio.gather(*(initiator.run(initiator.send(handle, each)) for handle in handles))
            if receiving is not None:
                await receiving
                while waiting:
                    await asyncio.sleep(0.0005)
                return [messages / (time.perf_counter() - started)]
            marks = [used, time.process_time()]
            receiving = asyncio.ensure_future(target.run(target.receive(messages)))
            await wire.let_go(receiving.done)
            marks.append(time.process_time())
            await wire.let_go(lambda: not waiting)
            marks.append(time.process_time())
            return [(later - earlier) / messages * 1e6 for earlier, later in itertools.pairwise(marks)]
        finally:
            initiator.engine.store.close()
            target.engine.store.close()


def main(size: Size = FULL) -> None:
    print("broker: processor time a message in µs, and both sides at once, durable, without sockets")
    print(f"{'threads':>9}{'send':>8}{'arrive+receive':>16}{'acknowledge':>13}{'messages/s':>12}")
    for threads in size.threads:
        send, receive, acknowledge = asyncio.run(measure(threads, size.messages, True))
        [per_second] = asyncio.run(measure(threads, size.messages, False))
        print(f"{threads:>9}{send:>8.0f}{receive:>16.0f}{acknowledge:>13.0f}{per_second:>12.0f}", flush=True)
    plain, secured = least(size, is_secured=False), least(size, is_secured=True)
    print(f"security of dialogs and connections adds {secured - plain:.1f} to {plain:.0f} µs a message")


def least(size: Size, *, is_secured: bool) -> float:
    """Microseconds of processor time a message of both sides together: the least of some trials with 10 threads."""
    return min(sum(asyncio.run(measure(10, size.messages, True, is_secured))) for _ in range(size.trials))


if __name__ == "__main__":
    main()
