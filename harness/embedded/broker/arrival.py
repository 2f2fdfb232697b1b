"""Arrival: frames from the network.

Frames wait in an inbox, of which there are as many as the platform has dispatchers; a conversation has always the same.
A task takes everything that lies there, accepts it in one transaction, waits for its commit and only then acknowledges:
a batch of messages is one flush of the store. While it waits the next batch gathers. The rules are those of "exactly
once in order": the next message in sequence is accepted, an old one is acknowledged again, an early one is held (in
memory, not acknowledged) until those before it have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from harness.embedded.broker import system
from harness.embedded.broker.conversations import ConversationEndpoint
from harness.embedded.broker.delivery import Refusal
from harness.embedded.broker.frames import (
    ACKNOWLEDGEMENT,
    ERROR,
    AcknowledgementFrame,
    DialogHeader,
    ErrorFrame,
    Frame,
    MessageFrame,
)
from harness.embedded.broker.routing import Local, Remote, Unknown
from harness.embedded.broker.states import CLOSED, DISCONNECTED_OUTBOUND, STARTED_INBOUND
from harness.embedded.broker.transactions import Transaction
from harness.embedded.broker.transmission import share
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import Signal, Waiting
from harness.embedded.store import Write

if TYPE_CHECKING:
    from harness.embedded.broker.engine import Engine

EARLY_MAX = 1024  # messages held for one conversation; what comes on top is sent again by the far side
_ENDS = (system.END_DIALOG, system.ERROR)


class _Inbox:
    """Frames that a task has still to take."""

    __slots__ = ("frames", "signal")

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.signal = Signal()

    def emptied(self) -> list[Frame]:
        frames, self.frames = self.frames, []
        return frames


class _Batch:
    """What one batch of frames leads to."""

    __slots__ = ("_engine", "acknowledge", "lazy", "replies", "tx")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.tx: Transaction | None = None
        self.acknowledge: dict[ConversationEndpoint, None] = {}
        self.replies: dict[tuple[str, int], list[Frame]] = {}
        self.lazy: list[Write] = []

    def transaction(self) -> Transaction:
        """Begun by the first that has something to change: acknowledgements seldom have."""
        if self.tx is None:
            self.tx = self._engine.begin_transaction()
        return self.tx


class Arrival:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._inboxes = [_Inbox() for _ in range(engine.platform.dispatchers)]

    def start(self) -> None:
        for inbox in self._inboxes:
            self._engine.scheduler.spawn(self._run(inbox), "arrival")

    def on_frames(self, frames: Sequence[Frame]) -> None:
        self._engine.counters.fragments_received += len(frames)
        inboxes = self._inboxes
        for frame in frames:
            inbox = inboxes[share(frame.conversation_id, len(inboxes))]
            inbox.frames.append(frame)
            if inbox.signal.waiters:
                inbox.signal.notify_one()

    def _run(self, inbox: _Inbox) -> Waiting[None]:
        while True:
            while not inbox.frames:
                yield inbox.signal.wait()
            yield from self._handle(inbox.emptied())  # which alone keeps the frames: gone with the batch

    def _handle(self, frames: list[Frame]) -> Waiting[None]:
        """Before anything of a batch shows it waits for processors, and for latches for its acknowledgements."""
        engine = self._engine
        platform = engine.platform
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
                    endpoint = engine.conversations.get((frame.conversation_id, not frame.from_initiator))
                    if endpoint is not None:
                        yield from platform.latch(endpoint.page)
        batch = self._take(frames)
        if batch.tx is not None:
            try:
                yield from batch.tx.commit()
            except SqlServerError:
                return  # not on disk, so not acknowledged; the far side sends again
        if batch.acknowledge:
            self._acknowledge(batch)
        for address, replies in batch.replies.items():
            engine.transmitter.send(address, replies)

    def _take(self, frames: list[Frame]) -> _Batch:
        """Waits for nothing: what a batch finds does not change while its transaction is built."""
        batch = _Batch(self._engine)
        for frame in frames:
            if isinstance(frame, MessageFrame):
                self._message(batch, frame)
            elif isinstance(frame, AcknowledgementFrame):
                self._acknowledgement(batch, frame)
            else:
                self._error(batch, frame)
        if batch.lazy:
            self._engine.store.commit_lazily(batch.lazy)
        return batch

    # Messages

    def _message(self, batch: _Batch, frame: MessageFrame) -> None:
        engine = self._engine
        engine.counters.enqueued_transport += 1
        receiver = engine.conversations.get((frame.conversation_id, not frame.from_initiator))
        if receiver is None:
            receiver = self._new_receiver(batch, frame)
            if receiver is None:
                return
        if receiver.changing is not None:
            receiver.changing.on_end(partial(self.on_frames, [frame]))
            return
        if not receiver.database.is_broker_enabled:
            return
        sequence = frame.sequence
        if frame.first_is_acknowledged and not receiver.first_is_acknowledged:
            receiver.first_is_acknowledged = True
        if sequence == receiver.receive_sequence:
            self._accept(batch, receiver, frame)
            if receiver.early:
                self._accept_held(batch, receiver)
        elif sequence < receiver.receive_sequence:
            # "Duplicates are dropped, but acknowledged again."
            engine.counters.dropped += 1
            batch.acknowledge[receiver] = None
        else:
            self._hold(receiver, frame)

    def _accept(self, batch: _Batch, receiver: ConversationEndpoint, frame: MessageFrame) -> None:
        if receiver.state is CLOSED and frame.message_type not in _ENDS:
            refusal = Refusal(8462)
            self._refuse(batch, receiver, frame, refusal)
            return
        try:
            self._engine.delivery.accept(batch.transaction(), receiver, frame.message_type, frame.body)
        except Refusal as refusal:
            self._refuse(batch, receiver, frame, refusal)
            if receiver.state is STARTED_INBOUND:
                self._engine.delivery.remove(batch.transaction(), receiver)
            else:
                self._engine.delivery.raise_error(batch.transaction(), receiver, refusal.code, refusal.description)
            return
        batch.acknowledge[receiver] = None

    def _accept_held(self, batch: _Batch, receiver: ConversationEndpoint) -> None:
        early = receiver.early
        assert early is not None
        while (frame := early.pop(receiver.receive_sequence, None)) is not None:
            self._accept(batch, receiver, frame)
        if not early:
            receiver.early = None

    @staticmethod
    def _hold(receiver: ConversationEndpoint, frame: MessageFrame) -> None:
        if receiver.early is None:
            receiver.early = {}
        if len(receiver.early) < EARLY_MAX:
            receiver.early[frame.sequence] = frame

    def _new_receiver(self, batch: _Batch, frame: MessageFrame) -> ConversationEndpoint | None:
        """The endpoint for the first message of a conversation; None if there is to be none."""
        header = frame.header
        if not frame.from_initiator or frame.first_is_acknowledged:
            self._to_a_gone_endpoint(batch, frame)
            return None
        destination = self._engine.router.arriving(header.to_service, header.to_broker_instance, frame.conversation_id)
        try:
            if isinstance(destination, Unknown):
                raise Refusal(8490, header.to_service)
            if not isinstance(destination, Local):
                return None  # dropped: the far side keeps the message and tries again
            if not self._may_send(destination, header):
                return None
            return self._engine.delivery.create_target(
                batch.transaction(), destination.database, destination.service, frame.conversation_id, header
            )
        except Refusal as refusal:
            self._reply(batch, frame, refusal.code, refusal.description)
            return None

    def _may_send(self, destination: Local, header: DialogHeader) -> bool:
        """Dialog security: False drops the message in silence, as SQL Server does when it lacks a certificate."""
        service, principals = destination.service, destination.database.principals
        senders = service.senders
        if not header.is_encrypted or header.certificate is None:
            if "public" not in senders:
                raise Refusal(8494, service.name)
            return True
        if not principals.has_master_key:
            self._undeliverable(service.name, "the database has no master key")
            return False
        known = [one for one in principals.certificates.values() if one.blob == header.certificate]
        if not known:
            self._undeliverable(service.name, "the sender's certificate is not known")
            return False
        owners = {certificate.owner.lower() for certificate in known}
        if "public" not in senders and "dbo" not in owners and not owners & senders:
            raise Refusal(8494, service.name)
        return True

    def _undeliverable(self, service: str, reason: str) -> None:
        self._engine.counters.dropped += 1
        self._engine.log(f"Broker:Message Undeliverable. A message for service '{service}' was dropped: {reason}.")

    def _to_a_gone_endpoint(self, batch: _Batch, frame: MessageFrame) -> None:
        if frame.message_type in _ENDS:
            # The far side ends what has ended here: it may stop sending that.
            self._reply_frame(
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
            refusal = Refusal(8462)
            self._reply(batch, frame, refusal.code, refusal.description)

    def _refuse(self, batch: _Batch, receiver: ConversationEndpoint, frame: MessageFrame, refusal: Refusal) -> None:
        self._engine.counters.dropped += 1
        self._reply(batch, frame, refusal.code, refusal.description)

    def _reply(self, batch: _Batch, frame: MessageFrame, code: int, description: str) -> None:
        reply = ErrorFrame(ERROR, frame.conversation_id, not frame.from_initiator, code, description)
        self._reply_frame(batch, frame, reply)

    def _reply_frame(self, batch: _Batch, frame: MessageFrame, reply: Frame) -> None:
        """Answers without an endpoint: by the routes of the database that the message was for."""
        header = frame.header
        database = self._engine.database_of_broker(header.to_broker_instance or "")
        if database is None:
            here = self._engine.router.arriving(header.to_service, None, frame.conversation_id)
            database = here.database if isinstance(here, Local) else self._engine.databases["msdb"]
        back = self._engine.router.classify(
            database, header.from_service, header.from_broker_instance, frame.conversation_id
        )
        if isinstance(back, Remote):
            batch.replies.setdefault(back.address, []).append(reply)

    # Acknowledgements and errors

    def _acknowledgement(self, batch: _Batch, frame: AcknowledgementFrame) -> None:
        engine = self._engine
        endpoint = engine.conversations.get((frame.conversation_id, not frame.from_initiator))
        if endpoint is None:
            return
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self.on_frames, [frame]))
            return
        last = engine.transmitter.acknowledged(endpoint, frame.sequence, batch.lazy)
        if last is None:
            return
        if not endpoint.first_is_acknowledged:
            endpoint.first_is_acknowledged = True  # after a crash: message 0 is no longer in the transmission queue
        if endpoint.far_broker_instance is None and frame.broker_instance:
            endpoint.far_broker_instance = frame.broker_instance
            endpoint.routing_version = -1
            endpoint.database.store_endpoint(batch.transaction(), endpoint)
        if endpoint.state is DISCONNECTED_OUTBOUND and last.message_type_name in _ENDS:
            engine.delivery.close(batch.transaction(), endpoint)

    def _error(self, batch: _Batch, frame: ErrorFrame) -> None:
        engine = self._engine
        endpoint = engine.conversations.get((frame.conversation_id, not frame.from_initiator))
        if endpoint is None:
            return
        if endpoint.changing is not None:
            endpoint.changing.on_end(partial(self.on_frames, [frame]))
            return
        engine.delivery.raise_error(batch.transaction(), endpoint, frame.code, frame.description)

    def _acknowledge(self, batch: _Batch) -> None:
        engine = self._engine
        outgoing: dict[tuple[str, int], list[Frame]] = {}
        for endpoint in batch.acknowledge:
            destination = engine.router.destination(endpoint)
            if not isinstance(destination, Remote):
                endpoint.transmission_status = getattr(destination, "status", "")
                continue
            outgoing.setdefault(destination.address, []).append(
                AcknowledgementFrame(
                    ACKNOWLEDGEMENT,
                    endpoint.conversation_id,
                    endpoint.is_initiator,
                    endpoint.receive_sequence - 1,
                    endpoint.database.service_broker_guid,
                )
            )
        for address, frames in outgoing.items():
            engine.transmitter.send(address, frames)
