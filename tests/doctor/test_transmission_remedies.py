"""Remedies for what Service Broker reports. Texts: "Database engine events and errors", 8000-9999 and 28000-28999."""

from __future__ import annotations

import pytest

from harness.doctor.transmission_remedies import SILENT, remedy_for

TEXTS = [
    ("The transport protocol is not available for Service Broker.", "ALTER ENDPOINT"),
    ("No route matches the destination service name for this conversation. Create a route ...", "route.sql"),
    ("Connection attempt failed with error: '10061(connection refused)'.", "endpoint"),
    (
        "Connection attempt failed with error: 'A previous existing connection with the same peer was detected ...'.",
        "open the other endpoint's port",
    ),
    ("Locating routes and security information via the Broker Configuration Service.", "BrokerConfiguration"),
    ("The broker is disabled in the sender's database.", "ENABLE_BROKER"),
    ("The service broker is administratively disabled.", "ENABLE_BROKER"),
    (
        "The target service name could not be found. Ensure that the service name is specified correctly ...",
        "link again",
    ),
    ("Service Broker needs to access the master key in the database 'x'. Error code:25.", "master_key.sql"),
    ("Dialog security is unavailable for this conversation because there is no remote service binding ...", "binding"),
    ("You do not have permission to access the service 'x'.", "GRANT SEND"),
    ('The server principal "x" is not able to access the database "y" under the current context.', "AUTHORIZATION"),
    ("Connection handshake failed. The certificate used by the peer is invalid due to ... State 89.", "certificate"),
    ("", "drops messages that it cannot verify"),
    ("something never heard of", "error log"),
]


@pytest.mark.parametrize("text, words", TEXTS)
def test_a_status_has_a_remedy(text, words):
    assert words in remedy_for(text)


def test_an_empty_status_has_its_own_remedy():
    assert remedy_for("  ") == SILENT
