"""The state table of conversation endpoints, entry by entry."""

import pytest

from harness.embedded.broker.endpoint_states import TRANSITIONS, EndpointEvent, EndpointState, successor

S, E = EndpointState, EndpointEvent

ENDED = {S.DISCONNECTED_OUTBOUND, S.CLOSED}


def test_the_codes_are_those_of_the_catalog_view():
    assert {state.value: state.name for state in S} == {
        "SO": "STARTED_OUTBOUND",
        "SI": "STARTED_INBOUND",
        "CO": "CONVERSING",
        "DI": "DISCONNECTED_INBOUND",
        "DO": "DISCONNECTED_OUTBOUND",
        "ER": "ERROR",
        "CD": "CLOSED",
    }


@pytest.mark.parametrize("state", S)
def test_only_a_started_or_conversing_endpoint_can_send(state):
    assert (successor(state, E.SEND) is not None) == (state in {S.STARTED_OUTBOUND, S.CONVERSING})


@pytest.mark.parametrize("state", S)
def test_an_ended_conversation_cannot_be_ended_again(state):
    assert (successor(state, E.END_LOCAL) is None) == (state in ENDED | {S.STARTED_INBOUND})


@pytest.mark.parametrize("event", E)
def test_no_event_leaves_closed(event):
    assert successor(S.CLOSED, event) is None


@pytest.mark.parametrize(
    "state, event, expected",
    [
        (S.STARTED_OUTBOUND, E.SEND, S.CONVERSING),
        (S.CONVERSING, E.SEND, S.CONVERSING),
        (S.STARTED_INBOUND, E.FIRST_MESSAGE, S.CONVERSING),
        (S.CONVERSING, E.END_LOCAL, S.DISCONNECTED_OUTBOUND),
        (S.CONVERSING, E.END_REMOTE, S.DISCONNECTED_INBOUND),
        (S.STARTED_OUTBOUND, E.ERROR_RAISED, S.ERROR),
        (S.STARTED_INBOUND, E.ERROR_RAISED, S.ERROR),
        (S.CONVERSING, E.ERROR_RAISED, S.ERROR),
        (S.DISCONNECTED_INBOUND, E.ERROR_RAISED, S.ERROR),
        (S.DISCONNECTED_INBOUND, E.END_LOCAL, S.CLOSED),
        (S.DISCONNECTED_OUTBOUND, E.END_ACKNOWLEDGED, S.CLOSED),
        (S.DISCONNECTED_OUTBOUND, E.ERROR_RAISED, S.CLOSED),
        (S.DISCONNECTED_OUTBOUND, E.END_REMOTE, S.DISCONNECTED_OUTBOUND),
        (S.ERROR, E.END_LOCAL, S.CLOSED),
        (S.STARTED_OUTBOUND, E.END_LOCAL, S.CLOSED),
    ],
)
def test_an_event_moves_an_endpoint(state, event, expected):
    assert successor(state, event) is expected


def test_every_state_can_be_reached_and_closed_is_reachable_from_everywhere():
    reached = {S.STARTED_OUTBOUND, S.STARTED_INBOUND} | set(TRANSITIONS.values())
    assert reached == set(S)
    closes = {S.CLOSED}
    for _ in S:
        closes |= {state for (state, _), after in TRANSITIONS.items() if after in closes}
    assert closes == set(S)
