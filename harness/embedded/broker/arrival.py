"""Arrival: the tasks that take frames from the network.

A task takes all frames in its inbox, accepts them in one transaction, waits for the commit and only then acknowledges:
a batch of messages needs one flush of the store. The next batch gathers meanwhile.
"""

from __future__ import annotations

from harness.embedded.broker.acceptance import Acceptance, Batch
from harness.embedded.broker.broker_link import BrokerLink
from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.broker.destinations import Delayed, Remote
from harness.embedded.broker.dispatchers import Inbox, Inboxes
from harness.embedded.broker.frames import ACKNOWLEDGEMENT, AcknowledgementFrame, Frame, MessageFrame
from harness.embedded.broker.router import Router
from harness.embedded.broker.transactions import Transactions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.platform import Platform
from harness.embedded.runtime.tasks import Scheduler, Waiting
from harness.embedded.store import Store


class Arrival:
    def __init__(  # noqa: PLR0917
        self,
        inboxes: Inboxes,
        acceptance: Acceptance,
        conversations: dict[tuple[str, bool], ConversationEndpoint],
        router: Router,
        link: BrokerLink,
        transactions: Transactions,
        store: Store,
        platform: Platform,
    ) -> None:
        self._inboxes = inboxes
        self._acceptance = acceptance
        self._conversations = conversations
        self._router = router
        self._link = link
        self._transactions = transactions
        self._store = store
        self._platform = platform

    def start(self, scheduler: Scheduler) -> None:
        for inbox in self._inboxes.all:
            scheduler.spawn(self._run(inbox), "arrival")

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
        """Charges processor time and latches before the batch becomes visible."""
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
            outgoing.setdefault(destination.address, []).append(
                AcknowledgementFrame(
                    ACKNOWLEDGEMENT,
                    endpoint.terms.conversation_id,
                    endpoint.terms.is_initiator,
                    endpoint.receive_sequence - 1,
                    endpoint.database.catalog.service_broker_guid,
                )
            )
        for address, frames in outgoing.items():
            self._link.send(address, frames)
