"""What becomes of conversations whose contract or service is dropped."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.broker.delivery import Delivery
from harness.embedded.broker.transactions import Transaction
from harness.embedded.broker.transmission import Transmitter
from harness.embedded.errors import SqlServerError


class Severance:
    def __init__(
        self,
        conversations: dict[tuple[str, bool], ConversationEndpoint],
        delivery: Delivery,
        transmitter: Transmitter,
    ) -> None:
        self._conversations = conversations
        self._delivery = delivery
        self._transmitter = transmitter

    def break_off(self, tx: Transaction, endpoints: Iterable[ConversationEndpoint], number: int) -> None:
        """Removes these endpoints and raises an error at their far sides."""
        text = SqlServerError(number).text
        for endpoint in endpoints:
            terms = endpoint.terms
            far = self._conversations.get((terms.conversation_id, not terms.is_initiator))
            if far is not None:
                self._delivery.raise_error(tx, far, -number, text)
            else:
                tx.on_commit(partial(self._transmitter.send_error, endpoint, -number, text))
            self._delivery.remove(tx, endpoint)
