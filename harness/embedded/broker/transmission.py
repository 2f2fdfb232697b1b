"""Transmission: rows of the transmission queue on their way, acknowledged, or sent again.

A conversation's messages go out in sequence, at most `WINDOW` of them unacknowledged. What is not acknowledged in time
is sent again after 4, 8, 16, 32 and then every 64 seconds. Nothing here waits for a single message: endpoints with
something to send are collected, and a dispatcher hands the transport everything there is, by address, at the end of the
scheduler's turn. There are as many dispatchers as the platform says; a conversation has always the same one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

from harness.embedded.broker.conversations import ConversationEndpoint, TransmissionRow
from harness.embedded.broker.frames import ERROR, MESSAGE, ErrorFrame, Frame, MessageFrame, body_bytes
from harness.embedded.broker.routing import Delayed, Local, Remote, Unknown
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, Signal, Timer, Waiting
from harness.embedded.store import Write

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine

# Rusanu, 2005-12-20: "4, 8, 16, 32 seconds, then every 64 seconds".
RETRY_DELAYS_NS = tuple(seconds * SECOND for seconds in (4, 8, 16, 32, 64))
WINDOW = 64  # messages of one conversation on the wire: enough for a round trip, little to send again


@lru_cache(maxsize=4096)  # asked for every frame, of conversations that are few at a time
def share(conversation_id: str, dispatchers: int) -> int:
    """Which dispatcher a conversation has: the same in every process, whatever hash() makes of it there."""
    return crc32(conversation_id.encode()) % dispatchers if dispatchers > 1 else 0


class _Dispatcher:
    """A task that transmits, and what it has to do."""

    __slots__ = ("woken", "work")

    def __init__(self) -> None:
        self.woken: dict[ConversationEndpoint, None] = {}
        self.work = Signal()


class Transmitter:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._dispatchers = [_Dispatcher() for _ in range(engine.platform.dispatchers)]
        # By number of tries: each list is in order of time, because each has one delay.
        self._retries: tuple[deque[tuple[int, ConversationEndpoint]], ...] = tuple(deque() for _ in RETRY_DELAYS_NS)
        self._timer: Timer | None = None
        self._broken: set[tuple[str, int]] = set()

    def start(self) -> None:
        for dispatcher in self._dispatchers:
            self._engine.scheduler.spawn(self._run(dispatcher), "transmitter")

    def wake(self, endpoint: ConversationEndpoint) -> None:
        """The endpoint may have something to send."""
        dispatcher = self._dispatchers[share(endpoint.conversation_id, len(self._dispatchers))]
        dispatcher.woken[endpoint] = None
        if dispatcher.work.waiters:
            dispatcher.work.notify_one()

    def _run(self, dispatcher: _Dispatcher) -> Waiting[None]:
        platform = self._engine.platform
        while True:
            while not dispatcher.woken:
                yield dispatcher.work.wait()
            woken, dispatcher.woken = dispatcher.woken, {}
            outgoing: dict[tuple[str, int], list[MessageFrame]] = {}
            here: list[ConversationEndpoint] = []
            for endpoint in self._in_order(woken):
                if len(endpoint.unacknowledged) > endpoint.in_flight:
                    yield from platform.latch(endpoint.page)
                    if len(endpoint.unacknowledged) > endpoint.in_flight:  # still: it may have been acknowledged
                        self._collect(endpoint, outgoing, here)
            for address, frames in outgoing.items():
                yield from platform.cpu("transmit", len(frames), body_bytes(frames))
                self.send(address, frames)
            for endpoint in here:
                yield from self._deliver_here(endpoint)

    @staticmethod
    def _in_order(woken: dict[ConversationEndpoint, None]) -> Iterable[ConversationEndpoint]:
        """First come, first served; with HONOR_BROKER_PRIORITY ON the highest priority goes first."""
        if len(woken) > 1 and any(endpoint.database.is_honor_broker_priority_on for endpoint in woken):
            return sorted(woken, key=lambda one: -one.priority if one.database.is_honor_broker_priority_on else -5)
        return woken

    def send(self, address: tuple[str, int], frames: Sequence[Frame]) -> None:
        transport = self._engine.transport
        if transport is not None:
            transport.send(address, frames)
            self._engine.counters.fragments_sent += len(frames)

    def _collect(
        self,
        endpoint: ConversationEndpoint,
        outgoing: dict[tuple[str, int], list[MessageFrame]],
        here: list[ConversationEndpoint],
    ) -> None:
        destination = self._engine.router.destination(endpoint)
        if isinstance(destination, Remote):
            endpoint.transmission_status = ""
            self._frames(endpoint, outgoing.setdefault(destination.address, []))
        elif isinstance(destination, Delayed):
            endpoint.transmission_status = destination.status
        else:
            here.append(endpoint)
        if not endpoint.retry_due_ns:
            self._plan_retry(endpoint)

    def _frames(self, endpoint: ConversationEndpoint, frames: list[MessageFrame]) -> None:
        rows, in_flight = endpoint.unacknowledged, endpoint.in_flight
        header = self._engine.sending.header(endpoint)
        for row in islice(rows, in_flight, WINDOW) if in_flight or len(rows) > WINDOW else rows:
            frames.append(
                MessageFrame(
                    MESSAGE,
                    endpoint.conversation_id,
                    endpoint.is_initiator,
                    row.message_sequence_number,
                    row.message_type_name,
                    row.message_body,
                    endpoint.first_is_acknowledged,
                    endpoint.priority,
                    header,
                )
            )
            in_flight += 1
        endpoint.in_flight = in_flight

    def send_error(self, endpoint: ConversationEndpoint, code: int, description: str) -> None:
        """Tells the far side that the conversation has failed; nothing is kept, nothing sent again."""
        destination = self._engine.router.destination(endpoint)
        if isinstance(destination, Remote):
            frame = ErrorFrame(ERROR, endpoint.conversation_id, endpoint.is_initiator, code, description)
            self.send(destination.address, [frame])

    # Delivery inside the instance that could not be done at commit

    def _deliver_here(self, endpoint: ConversationEndpoint) -> Waiting[None]:
        engine = self._engine
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self.wake, endpoint))
            return
        destination = engine.router.destination(endpoint)
        tx = engine.begin_transaction()
        if isinstance(destination, Unknown):
            error = SqlServerError(8490, destination.service_name)
            engine.delivery.raise_error(tx, endpoint, -8490, error.text)
        delivered: list[TransmissionRow] = []
        if isinstance(destination, Local):
            for row in list(islice(endpoint.unacknowledged, WINDOW)):
                if not engine.sending.deliver_locally(tx, row, destination):
                    break
                tx.write(endpoint.database.xmit_table, row.key, None)
                delivered.append(row)
        endpoint.in_flight = len(delivered)
        tx.on_rollback(partial(setattr, endpoint, "in_flight", 0))
        tx.on_commit(partial(self._take_off, endpoint, delivered))
        try:
            yield from tx.commit()
        except SqlServerError:
            return  # the disk is full: tried again like everything else
        if delivered and endpoint.unacknowledged:
            self.wake(endpoint)

    def _take_off(self, endpoint: ConversationEndpoint, rows: list[TransmissionRow]) -> None:
        for row in rows:
            if endpoint.unacknowledged and endpoint.unacknowledged[0] is row:
                self._pop(endpoint)
                endpoint.transmission_status = ""

    # Acknowledgement

    def acknowledged(
        self, endpoint: ConversationEndpoint, sequence: int, writes: list[Write]
    ) -> TransmissionRow | None:
        """The far side has everything up to this sequence; returns the last row taken off the transmission queue."""
        last = None
        rows = endpoint.unacknowledged
        while rows and rows[0].message_sequence_number <= sequence:
            last = self._pop(endpoint)
            writes.append((endpoint.database.xmit_table, last.key, None))
        if last is not None and rows:
            endpoint.retry_count = 0
            self._plan_retry(endpoint)
            if len(rows) > endpoint.in_flight:
                self.wake(endpoint)
        return last

    def _pop(self, endpoint: ConversationEndpoint) -> TransmissionRow:
        rows = endpoint.unacknowledged
        assert isinstance(rows, deque), "nothing is unacknowledged"
        row = rows.popleft()
        if not rows:
            endpoint.unacknowledged = ()
            endpoint.retry_count = endpoint.retry_due_ns = 0
        if endpoint.in_flight:
            endpoint.in_flight -= 1
        endpoint.database.transmission_queue.pop(row.key, None)
        self._engine.counters.dequeued_transmission += 1
        return row

    def forget(self, endpoint: ConversationEndpoint) -> None:
        """The conversation has failed or gone: nothing of it is sent any more."""
        database = endpoint.database
        keys = [row.key for row in endpoint.unacknowledged]
        for key in keys:
            database.transmission_queue.pop(key, None)
        # Those that came while the end was on its way to the disk are still there.
        self._engine.store.commit_lazily([(database.xmit_table, key, None) for key in keys])
        endpoint.unacknowledged = ()
        endpoint.in_flight = endpoint.retry_count = endpoint.retry_due_ns = 0

    # Retry

    def _plan_retry(self, endpoint: ConversationEndpoint) -> None:
        tries = min(endpoint.retry_count, len(RETRY_DELAYS_NS) - 1)
        due_ns = endpoint.retry_due_ns = self._engine.clock.now_ns + RETRY_DELAYS_NS[tries]
        self._retries[tries].append((due_ns, endpoint))
        if self._timer is None:
            self._timer = self._engine.scheduler.call_at(due_ns, self._retry)

    def _retry(self) -> None:
        """Sends again what is due; entries of endpoints that were acknowledged meanwhile are stale and dropped."""
        self._timer = None
        now_ns = self._engine.clock.now_ns
        next_due_ns: int | None = None
        for entries in self._retries:
            while entries:
                due_ns, endpoint = entries[0]
                if endpoint.retry_due_ns == due_ns:
                    if due_ns > now_ns:
                        next_due_ns = due_ns if next_due_ns is None else min(next_due_ns, due_ns)
                        break
                    endpoint.retry_due_ns = 0
                    if endpoint.unacknowledged:  # END CONVERSATION may have taken back what was not sent yet
                        endpoint.retry_count += 1
                        endpoint.in_flight = 0
                        self.wake(endpoint)
                entries.popleft()
        if next_due_ns is not None:
            self._timer = self._engine.scheduler.call_at(next_due_ns, self._retry)

    def try_all_again(self) -> None:
        """Something that routing or a target queue depends on has changed: no need to wait for the retry."""
        for database in self._engine.databases.values():
            for endpoint in {row.endpoint: None for row in database.transmission_queue.values()}:
                if not isinstance(endpoint.destination, Remote) or not endpoint.in_flight:
                    self.wake(endpoint)

    def connection_changed(self, address: tuple[str, int], up: bool, error: str) -> None:
        """What was on the wire of a broken connection is sent again as soon as there is a new one."""
        if not up:
            self._broken.add(address)
        for database in self._engine.databases.values():
            for endpoint in {row.endpoint: None for row in database.transmission_queue.values()}:
                if endpoint.destination == Remote(address):
                    endpoint.transmission_status = error
                    if up and (address in self._broken or endpoint.retry_count):
                        endpoint.in_flight = 0
                        self.wake(endpoint)
        if up:
            self._broken.discard(address)
