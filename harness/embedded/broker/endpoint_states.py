"""The states of a conversation endpoint, and the events that change them."""

from enum import Enum, StrEnum, auto


class EndpointState(StrEnum):
    """sys.conversation_endpoints.state; the member's name is state_desc."""

    STARTED_OUTBOUND = "SO"
    STARTED_INBOUND = "SI"
    CONVERSING = "CO"
    DISCONNECTED_INBOUND = "DI"
    DISCONNECTED_OUTBOUND = "DO"
    ERROR = "ER"
    CLOSED = "CD"


class EndpointEvent(Enum):
    SEND = auto()  # a SEND by the application
    FIRST_MESSAGE = auto()  # message 0 has arrived
    END_LOCAL = auto()  # END CONVERSATION, with or without an error
    END_REMOTE = auto()  # the far side's EndDialog came
    ERROR_RAISED = auto()  # an Error came from the far side, or the broker here raised one
    END_ACKNOWLEDGED = auto()  # the far side has our EndDialog or Error


# Constants, because every message needs them and the lookup of a member in its Enum is slow.
STARTED_OUTBOUND, STARTED_INBOUND = EndpointState.STARTED_OUTBOUND, EndpointState.STARTED_INBOUND
CONVERSING, CLOSED = EndpointState.CONVERSING, EndpointState.CLOSED
DISCONNECTED_OUTBOUND = EndpointState.DISCONNECTED_OUTBOUND

_S = EndpointState
_E = EndpointEvent

# A missing entry is an error of the caller (8429 for SEND, 8427 for END); events of the far side are then ignored.
TRANSITIONS: dict[tuple[EndpointState, EndpointEvent], EndpointState] = {
    (_S.STARTED_OUTBOUND, _E.SEND): _S.CONVERSING,
    (_S.CONVERSING, _E.SEND): _S.CONVERSING,
    (_S.STARTED_INBOUND, _E.FIRST_MESSAGE): _S.CONVERSING,
    # Nothing was sent: no far side knows this conversation.
    (_S.STARTED_OUTBOUND, _E.END_LOCAL): _S.CLOSED,
    (_S.CONVERSING, _E.END_LOCAL): _S.DISCONNECTED_OUTBOUND,
    # The far side has ended already: nothing is sent.
    (_S.DISCONNECTED_INBOUND, _E.END_LOCAL): _S.CLOSED,
    (_S.ERROR, _E.END_LOCAL): _S.CLOSED,
    (_S.CONVERSING, _E.END_REMOTE): _S.DISCONNECTED_INBOUND,
    # Both sides ended at once: our end is not acknowledged yet.
    (_S.DISCONNECTED_OUTBOUND, _E.END_REMOTE): _S.DISCONNECTED_OUTBOUND,
    (_S.STARTED_OUTBOUND, _E.ERROR_RAISED): _S.ERROR,
    (_S.STARTED_INBOUND, _E.ERROR_RAISED): _S.ERROR,
    (_S.CONVERSING, _E.ERROR_RAISED): _S.ERROR,
    (_S.DISCONNECTED_INBOUND, _E.ERROR_RAISED): _S.ERROR,
    # "The initiator in DO silently swallows errors" (Rusanu, 2006-04-06): the application is gone.
    (_S.DISCONNECTED_OUTBOUND, _E.ERROR_RAISED): _S.CLOSED,
    (_S.DISCONNECTED_OUTBOUND, _E.END_ACKNOWLEDGED): _S.CLOSED,
}


def successor(state: EndpointState, event: EndpointEvent) -> EndpointState | None:
    """Return the state after the event; None if the table has no entry."""
    return TRANSITIONS.get((state, event))
