"""Instances in virtual time, joined by a network that can lose, repeat and delay frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from operator import attrgetter
from typing import Any

from harness.embedded.broker import ddl_databases, ddl_network, ddl_principals, ddl_services
from harness.embedded.broker.database import ConversationEndpoint, Database
from harness.embedded.broker.definitions import ActivationOptions, QueueOptions
from harness.embedded.broker.engine import Engine
from harness.embedded.broker.frames import Frame, pack_frames, unpack_frames
from harness.embedded.broker.keys import Keys
from harness.embedded.broker.queues import Queue, QueueRow
from harness.embedded.broker.transactions import Transaction
from harness.embedded.runtime.platform import WaitStatistics
from harness.embedded.runtime.tasks import MILLISECOND, Task, Waiting
from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock, VirtualDriver
from harness.embedded.store.group_commit import Key, Value
from harness.embedded.store.memory_store import MemoryStore
from tests.latching import LatchingPlatform

LATENCY_NS = 1 * MILLISECOND
FLUSH_NS = 1 * MILLISECOND
M, C, S, Q = "M", "C", "S", "dbo.q"


class Network:
    """Carries frames; `deliveries(frame)` returns the delays after which copies of a frame arrive."""

    def __init__(self) -> None:
        self.listening: dict[tuple[str, int], Instance] = {}
        self.deliveries: Callable[[Frame], Sequence[int]] = lambda frame: [LATENCY_NS]
        self.sent: list[tuple[int, Frame]] = []  # (when, frame)

    def carry(self, clock_ns: int, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        for frame in [arrived for each in frames for arrived in unpack_frames(pack_frames([each]))]:
            self.sent.append((clock_ns, frame))
            receiver = self.listening.get(address)
            if receiver is not None:
                for delay_ns in self.deliveries(frame):
                    receiver.arrive_at(clock_ns + delay_ns, copy(frame))  # its seal is undone in place

    def forget(self, gone: Instance) -> None:
        """Close the addresses at which an instance listens."""
        self.listening = {address: instance for address, instance in self.listening.items() if instance is not gone}

    def times_s(self, kind: type) -> list[float]:
        """List when frames of a kind were sent, in seconds."""
        return [when_ns / 1e9 for when_ns, frame in self.sent if isinstance(frame, kind)]


class _Transport:
    def __init__(self, network: Network, instance: Instance) -> None:
        self._network, self._instance = network, instance

    def listen(self, host: str, port: int) -> None:
        self._network.listening["host", port] = self._instance

    def stop(self) -> None:
        self._network.forget(self._instance)

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        assert frames, "nothing to send"
        self._network.carry(self._instance.engine.clock.now_ns, address, frames)


def flush_ns(size_bytes: int) -> int:
    return FLUSH_NS


class Instance:
    """One instance with one database `db`, queue `q`, service `S` on contract `C` with message type `M`."""

    def __init__(self, world: World, name: str, port: int) -> None:
        self.world, self.name, self.port = world, name, port
        self.keys = world.make_keys()
        self.engine = self._start({})
        with_transaction(self, self._set_up)

    def _start(self, rows: Mapping[tuple[str, Key], Value]) -> Engine:
        self.scheduler = self.world.driver.scheduler()
        self.store = MemoryStore(self.scheduler, rows=rows, flush_ns=flush_ns)
        waits = WaitStatistics()
        latches = LatchingPlatform(self.scheduler, waits, hold_ns=self.world.latch_ns) if self.world.latch_ns else None
        self.engine = Engine(
            name=self.name,
            version="2008",
            scheduler=self.scheduler,
            entropy=SeededEntropy(self.world.next_seed()),
            store=self.store,
            transport=_Transport(self.world.network, self),
            platform=latches,
            waits=waits,
            keys=self.keys,
        )
        self.engine.recover()
        return self.engine

    def _set_up(self, tx: Transaction) -> None:
        db = ddl_databases.create_database(tx, self.engine.databases, self.name)
        ddl_services.create_message_type(tx, db.catalog, M)
        ddl_services.create_contract(tx, db.catalog, C, usages=[(M, "ANY")])
        ddl_services.create_queue(tx, db.catalog, "dbo", "q", QueueOptions())
        ddl_services.create_service(tx, db.catalog, S, queue=Q, contracts=[C])
        ddl_services.set_sender(tx, db.catalog, S, "public", may=True)
        ddl_network.create_endpoint(tx, self.engine.link, "broker", state="STARTED", port=self.port)

    def crash(self) -> None:
        """Kill the instance and start it again from its disk."""
        self.world.driver.forget(self.scheduler)
        self.world.network.forget(self)
        self._start(self.store.rows)

    def arrive_at(self, when_ns: int, frame: Frame) -> None:
        self.scheduler.call_at(when_ns, lambda: self.engine.on_frames("peer", [frame]))

    @property
    def db(self) -> Database:
        return self.engine.databases[self.name.lower()]

    @property
    def queue(self) -> Queue:
        return self.db.catalog.queues[Q]

    def endpoint(self, handle: str) -> ConversationEndpoint:
        return self.db.endpoints[handle]

    # Statements, each in its own transaction unless one is given

    def run(self, generator: Waiting[Any]) -> Any:
        return self.world.driver.finish(self.scheduler, generator)

    def spawn(self, generator: Waiting[Any]) -> Task:
        return self.scheduler.spawn(generator, "test")

    def begin(self, tx: Transaction | None = None, **options: Any) -> str:
        options = {"from_service": S, "to_service": S, "contract": C, "encryption": False} | options
        return self._statement(tx, lambda tx: self.engine.dialogs.begin(tx, self.db, **options))

    def send(self, handle: str, body: bytes | None = b"x", tx: Transaction | None = None, type_: str = M) -> None:
        self._statement(tx, lambda tx: self.engine.dialogs.send(tx, self.db, [handle], type_, body))

    def receive(self, tx: Transaction | None = None, **options: Any) -> list[QueueRow]:
        queue = self.db.catalog.queues[options.pop("queue", Q)]
        options = {"top": None} | options
        return self._statement(tx, lambda tx: self.engine.receiving.receive(tx, self.db, queue, **options))

    def receive_all(self) -> list[QueueRow]:
        rows: list[QueueRow] = []
        while more := self.receive():
            rows += more
        return rows

    def end(self, handle: str, tx: Transaction | None = None, **options: Any) -> None:
        self._statement(tx, lambda tx: self.engine.dialogs.end(tx, self.db, handle, **options))

    def alter_queue(self, **options: Any) -> None:
        with_transaction(
            self, lambda tx: ddl_services.alter_queue(tx, self.db.catalog, "dbo", "q", QueueOptions(**options))
        )

    def activation(self, **options: Any) -> None:
        self.alter_queue(activation=ActivationOptions(**options))

    def ddl(self, statement: Callable[[Transaction], Any]) -> Any:
        return with_transaction(self, statement)

    def _statement(self, tx: Transaction | None, statement: Callable[[Transaction], Waiting[Any]]) -> Any:
        return self.run(self.autocommit(statement) if tx is None else statement(tx))

    def autocommit(self, statement: Callable[[Transaction], Waiting[Any]]) -> Waiting[Any]:
        tx = self.engine.transactions.begin()
        try:
            result = yield from statement(tx)
        except Exception:
            tx.rollback()
            raise
        yield from tx.commit()
        return result

    def commit(self, tx: Transaction) -> None:
        self.run(tx.commit())


def with_transaction(instance: Instance, statement: Callable[[Transaction], Any]) -> Any:
    def body() -> Waiting[Any]:
        tx = instance.engine.transactions.begin()
        try:
            result = statement(tx)
        except Exception:
            tx.rollback()
            raise
        yield from tx.commit()
        return result

    return instance.run(body())


class World:
    """Instances on one clock; a row's change holds its page's latch for `latch_ns`, and 0 means no latches.

    `make_keys` makes the cryptography of an instance; without it there is none."""

    def __init__(self, latch_ns: int = 0, make_keys: Callable[[], Keys | None] = lambda: None) -> None:
        self.latch_ns = latch_ns
        self.make_keys = make_keys
        self.clock = VirtualClock()
        self.driver = VirtualDriver(self.clock)
        self.network = Network()
        self._seed = 0

    def next_seed(self) -> int:
        self._seed += 1
        return self._seed

    def instance(self, name: str) -> Instance:
        return Instance(self, name, 5000 + self.next_seed())

    def link(self, one: Instance, other: Instance) -> None:
        """Make routes both ways, by service name and broker instance."""
        for here, there in ((one, other), (other, one)):
            here.ddl(
                lambda tx, here=here, there=there: ddl_network.create_route(
                    tx,
                    here.db.catalog,
                    f"to {there.name}",
                    service_name=S,
                    broker_instance=there.db.catalog.service_broker_guid,
                    address=f"TCP://host:{there.port}",
                )
            )

    def pair(self) -> tuple[Instance, Instance]:
        """Make a linked initiator and target."""
        initiator, target = self.instance("initiator"), self.instance("target")
        self.link(initiator, target)
        return initiator, target

    def secure(self, initiator: Instance, target: Instance) -> None:
        """Give both sides what encrypted dialogs need."""
        for side in (initiator, target):
            side.ddl(lambda tx, side=side: ddl_principals.create_master_key(tx, side.db.catalog))
            side.ddl(
                lambda tx, side=side: ddl_principals.create_certificate(tx, side.db.catalog, "own", subject=side.name)
            )
        for here, there in ((initiator, target), (target, initiator)):
            blob = there.db.catalog.principals.certificates["own"].blob
            here.ddl(lambda tx, here=here: ddl_principals.create_user(tx, here.db.catalog, here.engine.logins, "proxy"))
            here.ddl(
                lambda tx, here=here, blob=blob: ddl_principals.create_certificate(
                    tx, here.db.catalog, "theirs", owner="proxy", blob=blob
                )
            )
        self.bind(initiator, target)

    def bind(self, initiator: Instance, target: Instance) -> None:
        """Let the initiator encrypt for the target."""
        initiator.ddl(
            lambda tx: ddl_network.create_remote_service_binding(
                tx, initiator.db.catalog, "binding", to_service=S, user="proxy"
            )
        )

    def dialog(self, initiator: Instance, target: Instance, **options: Any) -> str:
        return initiator.begin(to_broker_instance=target.db.catalog.service_broker_guid, **options)

    def run_for(self, seconds: float) -> None:
        self.driver.run_for(seconds)

    def set_wall_clock(self, seconds: float, *instances: Instance) -> None:
        """Set the wall clock of these instances forward, or back."""
        self.clock.epoch_utc_ns += round(seconds * 1e9)
        for instance in instances:
            instance.engine.scheduler.wall_clock_is_set()

    def now_s(self) -> float:
        return self.clock.now_ns / 1e9


def bodies(rows: Sequence[QueueRow]) -> list[bytes | None]:
    return [row.message_body for row in rows]


def handle_of(row: QueueRow) -> str:
    return row.incoming.terms.conversation_handle


def kinds(rows: Sequence[QueueRow]) -> list[str]:
    return [row.message_type.name.rpartition("/")[2] for row in rows]


_KEPT = attrgetter(
    *[
        "terms.conversation_id",
        "terms.is_initiator",
        "state",
        "send_sequence",
        "receive_sequence",
        "terms.lifetime",
        "dialog_timer",
    ],
    *[
        "terms.far_service",
        "terms.service_id",
        "far_broker_instance",
        "incoming.group.conversation_group_id",
        "terms.priority",
    ],
    *["terms.is_encrypted", "security_timestamp", "end_dialog_sequence"],
)


def snapshot(instance: Instance) -> dict[str, Any]:
    """Copy the state of an instance's database that a restart must restore."""
    db = instance.db
    return {
        "database": db.catalog.stored(),
        "endpoints": {handle: _KEPT(endpoint) for handle, endpoint in db.endpoints.items()},
        "groups": sorted(db.groups),
        "rows": {
            (queue.name, order): row.stored()
            for queue in db.catalog.queues.values()
            for order, row in queue.rows.items()
        },
        "blocked": {queue.name: [row.stored() for row in queue.blocked] for queue in db.catalog.queues.values()},
        "transmission": sorted(
            (key, row.message_type_name, row.message_body) for key, row in db.transmission_queue.items()
        ),
        "objects": [
            sorted(kind)
            for kind in (
                db.catalog.message_types,
                db.catalog.contracts,
                db.catalog.services,
                db.catalog.routes,
                db.catalog.queues,
            )
        ],
    }


def check_queue(instance: Instance) -> None:
    """Assert the invariants of a queue's structures."""
    queue = instance.queue
    ready = [row for endpoint in instance.db.endpoints.values() for row in endpoint.incoming.ready]
    retained = [row for endpoint in instance.db.endpoints.values() for row in endpoint.incoming.retained]
    assert {row.queuing_order for row in ready + retained} == set(queue.rows)
    for group in instance.db.groups.values():
        assert group.ready == {handle: one for handle, one in group.members.items() if one.ready}
        assert all(incoming.group is group for incoming in group.members.values())
        if group.ready and group.owner is None:
            assert group.heap_entry is not None, "nobody would ever receive this"
    for endpoint in instance.db.endpoints.values():
        numbers = [row.message_sequence_number for row in endpoint.incoming.ready if row.message_sequence_number >= 0]
        kinds_ = {row.message_type.name.rpartition("/")[2] for row in endpoint.incoming.ready}
        assert numbers == sorted(numbers) or "Error" in kinds_
