"""Transmission: sends the rows of the transmission queue until they are acknowledged.

A conversation's messages go out in sequence, at most `WINDOW` of them unacknowledged. Unacknowledged messages are sent
again after 4, 8, 16, 32 and then every 64 seconds. No task waits for a single message: a dispatcher collects the
endpoints that have something to send, and hands the transport all their frames by address at the end of the scheduler's
turn.

`in_flight` counts the rows that were handed to the transport and not acknowledged; they are the first of
`unacknowledged`. To send again is to set it to 0: the window begins anew with the oldest row. The far side drops what
it has already, and acknowledges it once more. A connection that comes up again after it broke does the same at once,
for all conversations with that address.

Times to send again lie in one list for each delay, in order, since all entries of a list wait equally long. An entry is
never removed when its row is acknowledged; it is stale then, and found to be so when its time comes: an endpoint knows
the only time that counts for it (`retry_due_ns`). So an acknowledgement costs nothing here, and one timer is enough.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from harness.embedded.broker.broker_link import Dispatcher, Dispatchers
from harness.embedded.broker.database import ConversationEndpoint, Delayed, Remote, TransmissionRow, Unconfigured
from harness.embedded.broker.departure import Departure
from harness.embedded.broker.dynamic_routing import ConfigurationRequests
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.frames import ErrorFrame, MessageFrame, body_bytes
from harness.embedded.broker.router import Router
from harness.embedded.runtime.tasks import SECOND, Timer, Waiting
from harness.embedded.store.group_commit import Write

# Rusanu, 2005-12-20: "4, 8, 16, 32 seconds, then every 64 seconds".
RETRY_DELAYS_NS = tuple(seconds * SECOND for seconds in (4, 8, 16, 32, 64))
WINDOW = 64  # messages of one conversation on the wire: enough for a round trip, few to send again


class Transmitter:
    def __init__(
        self,
        environment: Environment,
        router: Router,
        departure: Departure,
        dispatchers: Dispatchers,
        requests: ConfigurationRequests,
    ) -> None:
        self._scheduler = environment.scheduler
        self._platform = environment.platform
        self._counters = environment.counters
        self._router = router
        self._link = router.link
        self._databases = router.databases
        self._departure = departure
        self._dispatchers = dispatchers
        self._requests = requests
        # By number of tries: each list is in order of time, because all its entries have the same delay.
        self._retries: tuple[deque[tuple[int, ConversationEndpoint]], ...] = tuple(deque() for _ in RETRY_DELAYS_NS)
        self._timer: Timer | None = None
        self._timer_due_ns = 0
        self._broken: set[tuple[str, int]] = set()

    def start(self) -> None:
        for dispatcher in self._dispatchers.all:
            self._scheduler.spawn(self._run(dispatcher), "transmitter")

    def _run(self, dispatcher: Dispatcher) -> Waiting[None]:
        platform = self._platform
        while True:
            while not dispatcher.woken:
                yield dispatcher.work.wait()
            woken, dispatcher.woken = dispatcher.woken, {}
            frames: dict[tuple[str, int], list[MessageFrame]] = {}
            endpoints: list[ConversationEndpoint] = []
            for endpoint in self._in_order(woken):
                outgoing = endpoint.outgoing
                if len(outgoing.unacknowledged) > outgoing.in_flight:
                    yield from platform.latch(endpoint.page)
                    if len(outgoing.unacknowledged) > outgoing.in_flight:  # it may have been acknowledged meanwhile
                        self._collect(endpoint, frames, endpoints)
            for address, sent in frames.items():
                yield from platform.cpu("transmit", len(sent), body_bytes(sent))
                self._link.send(address, sent)
            for endpoint in endpoints:
                yield from self._departure.deliver_waiting(endpoint)

    @staticmethod
    def _in_order(woken: dict[ConversationEndpoint, None]) -> Iterable[ConversationEndpoint]:
        """Order endpoints first come, first served; with HONOR_BROKER_PRIORITY ON by highest priority."""
        if len(woken) > 1 and any(endpoint.database.catalog.is_honor_broker_priority_on for endpoint in woken):
            return sorted(
                woken,
                key=lambda endpoint_: (
                    -endpoint_.terms.priority if endpoint_.database.catalog.is_honor_broker_priority_on else -5
                ),
            )
        return woken

    def _collect(
        self,
        endpoint: ConversationEndpoint,
        frames: dict[tuple[str, int], list[MessageFrame]],
        endpoints: list[ConversationEndpoint],
    ) -> None:
        destination, outgoing = self._router.destination(endpoint), endpoint.outgoing
        if isinstance(destination, Remote):
            outgoing.transmission_status = ""
            self._add_frames(endpoint, frames.setdefault(destination.address, []))
        elif isinstance(destination, Delayed):
            outgoing.transmission_status = destination.status
            if isinstance(destination, Unconfigured):
                self._requests.ask(endpoint, destination.request)
        else:
            endpoints.append(endpoint)
        if not outgoing.retry_due_ns:
            self._plan_retry(endpoint)

    def _add_frames(self, endpoint: ConversationEndpoint, frames: list[MessageFrame]) -> None:
        terms, outgoing = endpoint.terms, endpoint.outgoing
        rows, in_flight = outgoing.unacknowledged, outgoing.in_flight
        header, session = self._router.header(endpoint), endpoint.session
        for row in islice(rows, in_flight, WINDOW) if in_flight or len(rows) > WINDOW else rows:
            frame = MessageFrame(
                terms.conversation_id,
                terms.is_initiator,
                row.message_sequence_number,
                row.message_type_name,
                row.message_body,
                endpoint.first_is_acknowledged,
                terms.priority,
                header,
            )
            if session is not None:
                session.seal(frame)
            frames.append(frame)
            in_flight += 1
        outgoing.in_flight = in_flight

    def send_error(self, endpoint: ConversationEndpoint, code: int, description: str) -> None:
        """Send the far side an error of the conversation once, without keeping it."""
        destination = self._router.destination(endpoint)
        if isinstance(destination, Remote):
            terms = endpoint.terms
            frame = ErrorFrame(terms.conversation_id, terms.is_initiator, code, description)
            if endpoint.session is not None:
                endpoint.session.seal(frame)
            self._link.send(destination.address, [frame])

    # Acknowledgement

    def acknowledged(
        self, endpoint: ConversationEndpoint, sequence: int, writes: list[Write]
    ) -> TransmissionRow | None:
        """Remove rows up to this sequence from the transmission queue; return the last one removed."""
        last = None
        outgoing = endpoint.outgoing
        rows = outgoing.unacknowledged
        while rows and rows[0].message_sequence_number <= sequence:
            last = outgoing.pop()
            self._counters.dequeued_transmission += 1
            writes.append((endpoint.database.xmit_table, last.key, None))
        if last is not None and rows:
            outgoing.retry_count = 0
            self._plan_retry(endpoint)
            if len(rows) > outgoing.in_flight:
                self._dispatchers.wake(endpoint)
        return last

    def add_again(self, endpoint: ConversationEndpoint, row: TransmissionRow) -> None:
        """Put the last row back whose removal was not stored, to be sent again."""
        endpoint.outgoing.add(row)
        endpoint.outgoing.in_flight = 1
        self._plan_retry(endpoint)

    # Retry

    def _plan_retry(self, endpoint: ConversationEndpoint) -> None:
        outgoing = endpoint.outgoing
        tries = min(outgoing.retry_count, len(RETRY_DELAYS_NS) - 1)
        due_ns = outgoing.retry_due_ns = self._scheduler.clock.now_ns + RETRY_DELAYS_NS[tries]
        self._retries[tries].append((due_ns, endpoint))
        if self._timer is None or due_ns < self._timer_due_ns:
            self._set_timer(due_ns)

    def _set_timer(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_due_ns = due_ns
        self._timer = self._scheduler.call_at(due_ns, self._retry)

    def _retry(self) -> None:
        """Send again what is due; drop stale entries, whose endpoints were acknowledged meanwhile."""
        self._timer = None
        now_ns = self._scheduler.clock.now_ns
        next_due_ns: int | None = None
        for entries in self._retries:
            while entries:
                due_ns, endpoint = entries[0]
                outgoing = endpoint.outgoing
                if outgoing.retry_due_ns == due_ns:
                    if due_ns > now_ns:
                        next_due_ns = due_ns if next_due_ns is None else min(next_due_ns, due_ns)
                        break
                    outgoing.retry_due_ns = 0
                    if outgoing.unacknowledged:  # END CONVERSATION may have taken back unsent messages
                        outgoing.retry_count += 1
                        outgoing.in_flight = 0
                        self._dispatchers.wake(endpoint)
                entries.popleft()
        if next_due_ns is not None:
            self._set_timer(next_due_ns)

    def try_all_again(self) -> None:
        """Send at once, without waiting for the retry, after routing or a target queue has changed."""
        for endpoint in self._with_rows():
            if not isinstance(endpoint.outgoing.destination, Remote) or not endpoint.outgoing.in_flight:
                self._dispatchers.wake(endpoint)

    def connection_changed(self, address: tuple[str, int], is_up: bool, status: str) -> None:
        """Send messages lost with a broken connection again as soon as a new one is up."""
        if not is_up:
            self._broken.add(address)
        for endpoint in self._with_rows():
            outgoing = endpoint.outgoing
            if outgoing.destination == Remote(address):
                outgoing.transmission_status = status
                if is_up and (address in self._broken or outgoing.retry_count):
                    outgoing.in_flight = 0
                    self._dispatchers.wake(endpoint)
        if is_up:
            self._broken.discard(address)

    def _with_rows(self) -> Iterator[ConversationEndpoint]:
        """Yield each endpoint with rows in a transmission queue once."""
        for database in self._databases.values():
            yield from {row.endpoint: None for row in database.transmission_queue.values()}
