"""What one side of a conversation knows from its beginning and never changes."""

from __future__ import annotations

from dataclasses import dataclass

from harness.embedded.broker.definitions import Contract


@dataclass(slots=True, eq=False)
class DialogTerms:
    """The part of a row of sys.conversation_endpoints that is fixed when the endpoint is made."""

    conversation_handle: str
    conversation_id: str
    is_initiator: bool
    service_name: str
    service_id: int
    contract: Contract
    far_service: str
    lifetime: int | None  # UTC ns; None: the dialog never expires (int max seconds)
    is_encrypted: bool
    priority: int
    is_system: bool = False
