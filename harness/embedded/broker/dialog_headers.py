"""The headers that describe a dialog in each of its messages."""

from __future__ import annotations

from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.broker.frames import DialogHeader
from harness.embedded.runtime.tasks import Clock


class DialogHeaders:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def of(self, endpoint: ConversationEndpoint) -> DialogHeader:
        """Returns the header of the endpoint's messages, which is made once."""
        outgoing = endpoint.outgoing
        header = outgoing.header
        if header is None or header.to_broker_instance != endpoint.far_broker_instance:
            terms = endpoint.terms
            header = outgoing.header = DialogHeader(
                terms.far_service,
                endpoint.far_broker_instance,
                terms.service_name,
                endpoint.database.catalog.service_broker_guid,
                terms.contract.name,
                terms.lifetime,
                terms.is_encrypted,
                self._certificate(endpoint),
            )
        return header

    def _certificate(self, endpoint: ConversationEndpoint) -> bytes | None:
        terms, catalog = endpoint.terms, endpoint.database.catalog
        if not terms.is_encrypted or not terms.is_initiator:
            return None
        binding = catalog.binding_for(terms.far_service)
        if binding is None or binding.is_anonymous_on:
            return None
        owned = catalog.principals.certificates_of(endpoint.service.owner, self._clock.utc_ns())
        return owned[0].blob if owned else None
