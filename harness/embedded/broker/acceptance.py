"""Acceptance: applies a frame from the network to its conversation.

The rules are those of "exactly once in order": the next message in sequence is accepted, an old one is acknowledged
again, an early one is held in memory, unacknowledged, until the earlier ones have come.
"""

from __future__ import annotations

from functools import partial

from harness.embedded.broker import system_objects
from harness.embedded.broker.counters import Counters
from harness.embedded.broker.database import ConversationEndpoint, Databases
from harness.embedded.broker.delivery import Delivery, Refusal
from harness.embedded.broker.destinations import Remote, Unknown
from harness.embedded.broker.dispatchers import Inboxes
from harness.embedded.broker.endpoint_states import CLOSED, DISCONNECTED_OUTBOUND, STARTED_INBOUND
from harness.embedded.broker.error_log import ErrorLog
from harness.embedded.broker.frames import (
    ACKNOWLEDGEMENT,
    ERROR,
    AcknowledgementFrame,
    DialogHeader,
    ErrorFrame,
    Frame,
    MessageFrame,
)
from harness.embedded.broker.router import Local, Router
from harness.embedded.broker.transactions import Transaction, Transactions
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.store import Write

EARLY_MAX = 1024  # messages held for one conversation; the far side sends others again


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
        """Begins the transaction with the first change; a batch of acknowledgements seldom needs one."""
        if self.tx is None:
            self.tx = self._transactions.begin()
        return self.tx


class Undeliverable(Exception):
    """A message that is dropped without an answer; the text is the reason."""


class Acceptance:
    def __init__(  # noqa: PLR0917
        self,
        conversations: dict[tuple[str, bool], ConversationEndpoint],
        delivery: Delivery,
        transmitter: Transmitter,
        replies: Replies,
        inboxes: Inboxes,
        router: Router,
        counters: Counters,
        error_log: ErrorLog,
    ) -> None:
        self._conversations = conversations
        self._delivery = delivery
        self._transmitter = transmitter
        self._replies = replies
        self._inboxes = inboxes
        self._router = router
        self._counters = counters
        self._error_log = error_log

    def take(self, batch: Batch, frame: Frame) -> None:
        """Handles one frame without waiting, so that nothing changes while the transaction is built."""
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
        if receiver.changing is not None:
            receiver.changing.on_end(partial(self._inboxes.put, [frame]))
            return
        if not receiver.database.catalog.is_broker_enabled:
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
        else:
            self._hold(receiver, frame)

    def _accept(self, batch: Batch, receiver: ConversationEndpoint, frame: MessageFrame) -> None:
        if receiver.state is CLOSED and frame.message_type not in system_objects.ENDS:
            self._refuse(batch, frame, Refusal(8462))
            return
        try:
            self._delivery.accept(batch.transaction(), receiver, frame.message_type, frame.body)
        except Refusal as refusal:
            self._refuse(batch, frame, refusal)
            if receiver.state is STARTED_INBOUND:
                self._delivery.remove(batch.transaction(), receiver)
            else:
                self._delivery.raise_error(batch.transaction(), receiver, refusal.code, refusal.description)
            return
        batch.acknowledge[receiver] = None

    def _accept_held(self, batch: Batch, receiver: ConversationEndpoint) -> None:
        early = receiver.incoming.early
        assert early is not None
        while (frame := early.pop(receiver.receive_sequence, None)) is not None:
            self._accept(batch, receiver, frame)
        if not early:
            receiver.incoming.early = None

    @staticmethod
    def _hold(receiver: ConversationEndpoint, frame: MessageFrame) -> None:
        if receiver.incoming.early is None:
            receiver.incoming.early = {}
        if len(receiver.incoming.early) < EARLY_MAX:
            receiver.incoming.early[frame.sequence] = frame

    def _new_receiver(self, batch: Batch, frame: MessageFrame) -> ConversationEndpoint | None:
        """Makes the endpoint for the first message of a conversation; None if the message is refused or dropped."""
        header = frame.header
        if not frame.from_initiator or frame.first_is_acknowledged:
            self._to_a_gone_endpoint(batch, frame)
            return None
        destination = self._router.arriving(header.to_service, header.to_broker_instance, frame.conversation_id)
        try:
            if isinstance(destination, Unknown):
                raise Refusal(8490, header.to_service)
            if not isinstance(destination, Local):
                return None  # dropped: the far side keeps the message and tries again
            _check_sender(destination, header)
            return self._delivery.create_target(
                batch.transaction(), destination.database, destination.service, frame.conversation_id, header
            )
        except Refusal as refusal:
            self._replies.refuse(batch, frame, refusal)
        except Undeliverable as reason:
            self._counters.dropped += 1
            self._error_log.write(
                f"Broker:Message Undeliverable. A message for service '{header.to_service}' was dropped: {reason}."
            )
        return None

    def _to_a_gone_endpoint(self, batch: Batch, frame: MessageFrame) -> None:
        if frame.message_type in system_objects.ENDS:
            # Both sides have ended: the acknowledgement lets the far side stop sending its end.
            self._replies.add(
                batch,
                frame,
                AcknowledgementFrame(
                    ACKNOWLEDGEMENT,
                    frame.conversation_id,
                    not frame.from_initiator,
                    frame.sequence,
                    frame.header.to_broker_instance or "",
                ),
            )
        else:
            self._replies.refuse(batch, frame, Refusal(8462))

    def _refuse(self, batch: Batch, frame: MessageFrame, refusal: Refusal) -> None:
        self._counters.dropped += 1
        self._replies.refuse(batch, frame, refusal)

    def _acknowledgement(self, batch: Batch, frame: AcknowledgementFrame) -> None:
        endpoint = self._conversations.get((frame.conversation_id, not frame.from_initiator))
        if endpoint is None:
            return
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self._inboxes.put, [frame]))
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
            self._delivery.close(batch.transaction(), endpoint)

    def _error(self, batch: Batch, frame: ErrorFrame) -> None:
        endpoint = self._conversations.get((frame.conversation_id, not frame.from_initiator))
        if endpoint is None:
            return
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self._inboxes.put, [frame]))
            return
        self._delivery.raise_error(batch.transaction(), endpoint, frame.code, frame.description)


class Replies:
    """Answers messages that have no endpoint, or whose endpoint refuses them."""

    def __init__(self, databases: Databases, router: Router) -> None:
        self._databases = databases
        self._router = router

    def refuse(self, batch: Batch, frame: MessageFrame, refusal: Refusal) -> None:
        self.add(
            batch,
            frame,
            ErrorFrame(ERROR, frame.conversation_id, not frame.from_initiator, refusal.code, refusal.description),
        )

    def add(self, batch: Batch, frame: MessageFrame, reply: Frame) -> None:
        """Routes the answer by the routes of the database that the message was for."""
        header = frame.header
        database = self._databases.of_broker(header.to_broker_instance or "")
        if database is None:
            here = self._router.arriving(header.to_service, None, frame.conversation_id)
            database = here.database if isinstance(here, Local) else self._databases["msdb"]
        back = self._router.classify(database, header.from_service, header.from_broker_instance, frame.conversation_id)
        if isinstance(back, Remote):
            batch.replies.setdefault(back.address, []).append(reply)


def _check_sender(destination: Local, header: DialogHeader) -> None:
    """Checks dialog security. SQL Server drops a message without an answer if a key or certificate is missing."""
    service, principals = destination.service, destination.database.catalog.principals
    senders = service.senders
    if not header.is_encrypted or header.certificate is None:
        if "public" not in senders:
            raise Refusal(8494, service.name)
        return
    if not principals.has_master_key:
        raise Undeliverable("the database has no master key")
    known = [one for one in principals.certificates.values() if one.blob == header.certificate]
    if not known:
        raise Undeliverable("the sender's certificate is not known")
    owners = {certificate.owner.lower() for certificate in known}
    if "public" not in senders and "dbo" not in owners and not owners & senders:
        raise Refusal(8494, service.name)
