"""Arrival: the tasks that take frames from the network, and what each frame does to its conversation.

A task takes all frames in its inbox, accepts them in one transaction, waits for the commit and only then acknowledges:
a batch of messages needs one flush of the store. The next batch gathers meanwhile.

The rules are those of "exactly once in order": the next message in sequence is accepted, an old one is acknowledged
again, an early one is held in memory, unacknowledged, until the earlier ones have come.
"""

from __future__ import annotations

from functools import partial

from harness.embedded.broker import system_objects
from harness.embedded.broker.broker_link import Inbox, Inboxes
from harness.embedded.broker.database import ConversationEndpoint, Delayed, Local, Remote, Unknown
from harness.embedded.broker.delivery import Delivery, Refusal
from harness.embedded.broker.dialog_security import DialogSecurity, Undeliverable
from harness.embedded.broker.endpoint_states import CLOSED, CONVERSING, DISCONNECTED_OUTBOUND, STARTED_INBOUND
from harness.embedded.broker.environment import Environment
from harness.embedded.broker.frames import AcknowledgementFrame, DialogHeader, ErrorFrame, Frame, MessageFrame
from harness.embedded.broker.router import Router
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Waiting
from harness.embedded.store.group_commit import Write


class Batch:
    """The transaction, acknowledgements and replies that one batch of frames leads to."""

    __slots__ = ("_transactions", "acknowledge", "lazy", "replies", "tx")

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions
        self.tx: Transaction | None = None
        self.acknowledge: dict[ConversationEndpoint, None] = {}
        self.replies: dict[tuple[str, int], list[Frame]] = {}
        self.lazy: list[Write] = []

    def transaction(self) -> Transaction:
        """Begin the transaction with the first change; a batch of acknowledgements seldom needs one."""
        if self.tx is None:
            self.tx = self._transactions.begin()
        return self.tx


class Arrival:
    def __init__(
        self,
        environment: Environment,
        transactions: Transactions,
        router: Router,
        acceptance: Acceptance,
        inboxes: Inboxes,
    ) -> None:
        self._scheduler = environment.scheduler
        self._store = environment.store
        self._platform = environment.platform
        self._transactions = transactions
        self._router = router
        self._link = router.link
        self._conversations = router.databases.conversations
        self._acceptance = acceptance
        self._inboxes = inboxes

    def start(self) -> None:
        for inbox in self._inboxes.all:
            self._scheduler.spawn(self._run(inbox), "arrival")

    def _run(self, inbox: Inbox) -> Waiting[None]:
        while True:
            while not inbox.frames:
                yield inbox.signal.wait()
            yield from self._handle(inbox.emptied())  # passed on directly, so that the frames are freed with the batch

    def _handle(self, frames: list[Frame]) -> Waiting[None]:
        yield from self._charge(frames)
        batch = Batch(self._transactions)
        for frame in frames:
            self._acceptance.take(batch, frame)
        if batch.lazy:
            self._store.commit_lazily(batch.lazy)
        if batch.tx is not None:
            try:
                yield from batch.tx.commit()
            except SqlServerError:
                return  # not on disk, so not acknowledged; the far side sends again
        if batch.acknowledge:
            self._acknowledge(batch)
        for address, replies in batch.replies.items():
            self._link.send(address, replies)

    def _charge(self, frames: list[Frame]) -> Waiting[None]:
        """Charge processor time and latches before the batch becomes visible."""
        platform = self._platform
        messages = first = size_bytes = 0
        for frame in frames:
            if isinstance(frame, MessageFrame):
                messages += 1
                first += frame.sequence == 0
                size_bytes += len(frame.body or b"")
        if messages:
            yield from platform.cpu("enqueue", messages, size_bytes)
        if first:
            yield from platform.cpu("create_target", first)
        if messages < len(frames):
            yield from platform.cpu("acknowledge", len(frames) - messages)
            for frame in frames:
                if isinstance(frame, AcknowledgementFrame):
                    endpoint = self._conversations.get((frame.conversation_id, not frame.from_initiator))
                    if endpoint is not None:
                        yield from platform.latch(endpoint.page)

    def _acknowledge(self, batch: Batch) -> None:
        outgoing: dict[tuple[str, int], list[Frame]] = {}
        for endpoint in batch.acknowledge:
            destination = self._router.destination(endpoint)
            if not isinstance(destination, Remote):
                endpoint.outgoing.transmission_status = destination.status if isinstance(destination, Delayed) else ""
                continue
            frame = AcknowledgementFrame(
                endpoint.terms.conversation_id,
                endpoint.terms.is_initiator,
                endpoint.receive_sequence - 1,
                endpoint.database.catalog.service_broker_guid,
            )
            if endpoint.session is not None:
                endpoint.session.seal(frame)
            outgoing.setdefault(destination.address, []).append(frame)
        for address, frames in outgoing.items():
            self._link.send(address, frames)


class Acceptance:
    """Applies a frame from the network to its conversation."""

    def __init__(  # noqa: PLR0917
        self,
        environment: Environment,
        router: Router,
        security: DialogSecurity,
        delivery: Delivery,
        transmitter: Transmitter,
        inboxes: Inboxes,
    ) -> None:
        self._clock = environment.clock
        self._counters = environment.counters
        self._complaints = router.link.complaints
        self._router = router
        self._security = security
        self._conversations = router.databases.conversations
        self._delivery = delivery
        self._transmitter = transmitter
        self._inboxes = inboxes

    def take(self, batch: Batch, frame: Frame) -> None:
        """Handle one frame without waiting, so that nothing changes while the transaction is built."""
        if isinstance(frame, MessageFrame):
            self._message(batch, frame)
        elif isinstance(frame, AcknowledgementFrame):
            self._acknowledgement(batch, frame)
        else:
            self._error(batch, frame)

    def _message(self, batch: Batch, frame: MessageFrame) -> None:
        self._counters.enqueued_transport += 1
        receiver = self._conversations.get((frame.conversation_id, not frame.from_initiator))
        if receiver is None:
            receiver = self._new_receiver(batch, frame)
            if receiver is None:
                return
        elif receiver.changing is not None:
            receiver.changing.on_end(partial(self._inboxes.put, [frame]))
            return
        elif not receiver.database.catalog.is_broker_enabled:
            return
        else:
            try:
                _check_header(receiver, frame.header)
                if receiver.terms.is_encrypted:
                    self._security.open(receiver, frame)
            except ValueError as problem:
                self._corrupted(frame, problem)
                return
        sequence = frame.sequence
        if frame.first_is_acknowledged and not receiver.first_is_acknowledged:
            receiver.first_is_acknowledged = True
        if sequence == receiver.receive_sequence:
            self._accept(batch, receiver, frame)
            if receiver.incoming.early:
                self._accept_held(batch, receiver)
        elif sequence < receiver.receive_sequence:
            # "Duplicates are dropped, but acknowledged again."
            self._counters.dropped += 1
            batch.acknowledge[receiver] = None
        elif receiver.state is CONVERSING or receiver.state is STARTED_INBOUND:
            receiver.service.queue.hold(receiver.incoming, frame, self._clock.utc_ns())

    def _accept(self, batch: Batch, receiver: ConversationEndpoint, frame: MessageFrame) -> None:
        if receiver.state is CLOSED and frame.message_type not in system_objects.ENDS:
            self._counters.dropped += 1
            self._refuse(batch, frame, Refusal(8462))
            return
        try:
            self._delivery.accept(batch.transaction(), receiver, frame.message_type, frame.body)
        except Refusal as refusal:
            self._counters.dropped += 1
            self._refuse(batch, frame, refusal)
            self._delivery.refused(batch.transaction(), receiver, refusal)
            return
        batch.acknowledge[receiver] = None

    def _accept_held(self, batch: Batch, receiver: ConversationEndpoint) -> None:
        queue, incoming = receiver.service.queue, receiver.incoming
        while (frame := queue.take_early(incoming, receiver.receive_sequence)) is not None:
            self._accept(batch, receiver, frame)

    def _new_receiver(self, batch: Batch, frame: MessageFrame) -> ConversationEndpoint | None:
        """Make the endpoint for the first message of a conversation, and open the message; None if it is refused or
        dropped."""
        header = frame.header
        if not frame.from_initiator or frame.first_is_acknowledged:
            self._to_a_gone_endpoint(batch, frame)
            return None
        destination = self._router.arriving(header.to_service, header.to_broker_instance, frame.conversation_id)
        try:
            if isinstance(destination, Unknown):
                raise Refusal(8490, header.to_service)
            if not isinstance(destination, Local):  # the far side keeps the message and tries again
                status = destination.status if isinstance(destination, Delayed) else "Messages are not forwarded."
                self._undeliverable(header, status)
                return None
            session, protected = self._security.admit(destination, frame.conversation_id, header)
            if session is not None:
                session.open(frame)
            endpoint = self._delivery.create_target(
                batch.transaction(), destination.database, destination.service, frame.conversation_id, header
            )
        except Refusal as refusal:
            self._refuse(batch, frame, refusal)
            return None
        except Undeliverable as reason:
            self._counters.dropped += 1
            self._undeliverable(header, f"{reason}.")
            return None
        except ValueError as problem:
            self._corrupted(frame, problem)
            return None
        if session is not None:
            endpoint.session = session
            row = (protected,)
            batch.transaction().write(endpoint.database.session_table, endpoint.terms.conversation_handle, row)
        return endpoint

    def _undeliverable(self, header: DialogHeader, reason: str) -> None:
        text = f"Broker:Message Undeliverable. A message for service '{header.to_service}' was dropped: {reason}"
        self._complaints.write(reason, text)

    def _corrupted(self, frame: Frame, problem: ValueError) -> None:
        self._counters.corrupted += 1
        self._counters.dropped += 1
        kind = type(frame).__name__.removesuffix("Frame").lower()
        text = f"Broker:Corrupted Message. A {kind} of conversation {frame.conversation_id} was dropped: {problem}."
        self._complaints.write(f"{kind} {problem}", text)

    def _to_a_gone_endpoint(self, batch: Batch, frame: MessageFrame) -> None:
        if frame.message_type not in system_objects.ENDS:
            self._refuse(batch, frame, Refusal(8462))
            return
        # Both sides have ended: the acknowledgement lets the far side stop sending its end.
        instance = frame.header.to_broker_instance or ""
        self._reply(
            batch,
            frame,
            AcknowledgementFrame(frame.conversation_id, not frame.from_initiator, frame.sequence, instance),
        )

    def _refuse(self, batch: Batch, frame: MessageFrame, refusal: Refusal) -> None:
        error = ErrorFrame(frame.conversation_id, not frame.from_initiator, refusal.code, refusal.description)
        receiver = self._conversations.get((frame.conversation_id, not frame.from_initiator))
        if receiver is not None and receiver.session is not None:
            receiver.session.seal(error)
        self._reply(batch, frame, error)

    def _reply(self, batch: Batch, frame: MessageFrame, reply: Frame) -> None:
        """Answer a message that has no endpoint, or whose endpoint refuses it."""
        back = self._router.back(frame.header, frame.conversation_id)
        if isinstance(back, Remote):
            batch.replies.setdefault(back.address, []).append(reply)

    def _acknowledgement(self, batch: Batch, frame: AcknowledgementFrame) -> None:
        endpoint = self._conversations.get((frame.conversation_id, not frame.from_initiator))
        if endpoint is None:
            return
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self._inboxes.put, [frame]))
            return
        try:
            _check_acknowledgement(endpoint, frame)
            if endpoint.terms.is_encrypted and not _is_end(endpoint):
                self._security.open(endpoint, frame)
        except ValueError as problem:
            self._corrupted(frame, problem)
            return
        last = self._transmitter.acknowledged(endpoint, frame.sequence, batch.lazy)
        if last is None:
            return
        if not endpoint.first_is_acknowledged:
            endpoint.first_is_acknowledged = True  # not stored: recovery derives it from the rows left to send
        if endpoint.far_broker_instance is None and frame.broker_instance:
            endpoint.far_broker_instance = frame.broker_instance
            endpoint.outgoing.routing_version = -1
            batch.transaction().store_endpoint(endpoint)
        if endpoint.state is DISCONNECTED_OUTBOUND and last.message_type_name in system_objects.ENDS:
            tx = batch.transaction()
            tx.writes.append(batch.lazy.pop())  # if the commit fails, the far side must acknowledge this end again
            tx.on_rollback(partial(self._transmitter.add_again, endpoint, last))
            self._delivery.close(tx, endpoint)

    def _error(self, batch: Batch, frame: ErrorFrame) -> None:
        endpoint = self._conversations.get((frame.conversation_id, not frame.from_initiator))
        if endpoint is None:
            return
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self._inboxes.put, [frame]))
            return
        if endpoint.terms.is_encrypted:
            try:
                self._check_error(endpoint, frame)
            except ValueError as problem:
                self._corrupted(frame, problem)
                return
        self._delivery.raise_error(batch.transaction(), endpoint, frame.code, frame.description)

    def _check_error(self, endpoint: ConversationEndpoint, frame: ErrorFrame) -> None:
        """Who refuses the first message, or does not know the dialog any more, has no keys for it. But he answers a
        message, which is then still unacknowledged."""
        is_known = not endpoint.terms.is_initiator or endpoint.first_is_acknowledged
        if is_known and (frame.code != -8462 or frame.seal is not None):
            self._security.open(endpoint, frame)
        elif not endpoint.outgoing.unacknowledged:
            raise ValueError("it answers no message")


def _check_header(receiver: ConversationEndpoint, header: DialogHeader) -> None:
    """A message of a conversation comes from the broker instance at its other end, names this one or none, and is
    encrypted as its dialog is."""
    broker_instance = receiver.database.catalog.service_broker_guid
    if header.to_broker_instance is not None and header.to_broker_instance != broker_instance:
        raise ValueError("it is for another broker instance")
    if receiver.far_broker_instance is not None and header.from_broker_instance != receiver.far_broker_instance:
        raise ValueError("it is from another broker instance")
    if header.is_encrypted != receiver.terms.is_encrypted:
        raise ValueError("it is not encrypted as its dialog is")


def _check_acknowledgement(endpoint: ConversationEndpoint, frame: AcknowledgementFrame) -> None:
    far = endpoint.far_broker_instance
    if far is not None and frame.broker_instance and frame.broker_instance != far:
        raise ValueError("it is from another broker instance")


def _is_end(endpoint: ConversationEndpoint) -> bool:
    """Nothing but the end of the conversation waits: a far side that has forgotten it may acknowledge that."""
    waiting = endpoint.outgoing.unacknowledged
    return len(waiting) == 1 and waiting[0].message_type_name in system_objects.ENDS
