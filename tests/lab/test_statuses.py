"""Statuses: each message of the table is told by its text, and the innermost that is quoted decides."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import CATALOGUE
from harness.lab import statuses
from harness.lab.statuses import table, understand

NAMES = statuses.names("d", "s")
ROOT = Path(__file__).parents[2]
PARAMETER = statuses._PARAMETER
# Whose texts end otherwise in some versions.
OPEN_ENDED = {"1105", "9002"}


def filled(text: str, value: str = "a 'name' of it") -> str:
    return PARAMETER.sub(lambda _: value, text)


@pytest.mark.parametrize("number", [number for number in table() if number.isdigit()])
def test_a_message_is_told_by_its_text_with_a_reason_and_a_remedy(number: str) -> None:
    message = table()[number]
    understood = understand(filled(message.text))
    assert understood is not None
    if understood.message.text == message.text or number in OPEN_ENDED:
        assert understood.message.number == number
    else:  # 9755 and 9799, 28050 and 28051 ... have texts of which one contains the other
        pytest.fail(f"{number} is taken for {understood.message.number}")
    words = f"{understood.reason} {understood.remedy(**NAMES)}"
    assert "{" not in words and understood.reason and len(understood.remedy(**NAMES)) > 3


@pytest.mark.parametrize(
    "number", sorted({number for number in table() if number.isdigit() and int(number) in CATALOGUE})
)
def test_the_embedded_servers_text_of_a_message_is_that_of_the_table(number: str) -> None:
    text = CATALOGUE[int(number)].text.replace("%s", "x")
    understood = understand(text)
    assert understood is not None and understood.message.number == number


def test_remedies_that_are_called_rehearsed_are() -> None:
    """The others say `no`: the embedded server cannot make their trouble, or a test only compares their words."""
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "monitors").glob("test_*.py"))
    rehearsals = {message.rehearsed for message in table().values()} - {"no"}
    assert len(rehearsals) >= 16
    assert [name for name in rehearsals if not re.search(rf"^def (test_)?{name}\(", tests, re.MULTILINE)] == []


# At least these are asked for: statuses that people reported.
def test_what_people_have_reported_is_in_the_table() -> None:
    asked = "8494 9731 9733 9736 9737 9751 9752 9753 9754 9767 9779 9783 9784 9791 9796 28005 15517 15404 33009 28014"
    asked += " 28015 28018 28024 28025 28034 28035 28036 28050 28054 28075"
    assert set(asked.split()) <= table().keys()
    assert {"OS 11", "OS 64", "OS 10054", "OS 10060", "OS 10061"} <= table().keys()


OWNER = (
    "The database owner SID recorded in the master database differs from the database owner SID recorded in database 'Or]ders'. "
    "You should correct this situation by resetting the owner of database 'Or]ders' using the ALTER AUTHORIZATION statement."
)


@pytest.mark.parametrize(
    ("status", "number", "remedy"),
    [
        (
            f"An exception occurred while enqueueing a message in the target queue. Error: 33009, State: 2. {OWNER}",
            "33009",
            "ALTER AUTHORIZATION ON DATABASE::[Or]]ders] TO [sa];",
        ),
        (
            "The Service Broker in the target database is unavailable: 'The database is in single-user mode.'.",
            "28015",
            "SET MULTI_USER",
        ),
        (
            "Connection attempt failed with error: '10061(No connection could be made because the target machine actively refused it.)'.",
            "OS 10061",
            "STATE = STARTED",
        ),
        (
            "An error occurred while receiving data: '64(The specified network name is no longer available.)'.",
            "OS 64",
            "error log",
        ),
        ("Connection attempt failed with error: '4711(Something else.)'.", "9754", "ALTER ROUTE"),
        (
            "Service Broker connection was refused. The user account of the remote server is not permitted to log in to this SQL "
            "Server: User account: 'DOM\\broker', IP address: '10.0.0.1'.",
            "9752",
            r"GRANT CONNECT ON ENDPOINT::[<name>] TO [DOM\broker]",
        ),
        (
            "Service Broker needs to access the master key in the database 'AddressBook'. Error code:25. The master key has to exist "
            "and the service master key encryption is required.",
            "28054",
            "USE [AddressBook]; ",
        ),
        (
            "Connection handshake failed. The certificate used by this endpoint was not found: Certificate expired. Use DBCC CHECKDB "
            "in master database to verify the metadata integrity of the endpoints. State 85.",
            "28036",
            "in master: CREATE CERTIFICATE",
        ),
    ],
)
def test_the_innermost_message_that_is_known_decides(status: str, number: str, remedy: str) -> None:
    understood = understand(status)
    assert understood is not None and understood.message.number == number
    assert remedy in understood.remedy(**NAMES)


@given(st.text(max_size=30), st.sampled_from(sorted(table())))
def test_any_parameter_is_understood_or_not_and_never_an_error(value: str, number: str) -> None:
    understood = understand(filled(table()[number].text, value))
    assert understood is None or re.search(r"\w", understood.reason + understood.remedy(**NAMES))
    assert understand(value) is None or value.strip()
