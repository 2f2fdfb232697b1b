"""Remedies for connection and SQL errors."""

import socket

import pytest

from harness.lab import error_remedies
from harness.lab.error_remedies import error_text, explain

MICROSOFT = "[Microsoft][ODBC Driver 18 for SQL Server]"
EXPLAINED = [
    (
        f"[28000] {MICROSOFT}[SQL Server]Login failed for user 'sa'. (18456) (SQLDriverConnect)",
        "Login failed for user 'sa'. (error 18456): check the user's name and password, and that the server accepts SQL "
        "logins (mixed mode)",
    ),
    (
        f"[08S01] {MICROSOFT}TCP Provider: Error code 0x2746 (10054) (SQLExecDirectW)",
        "the server closed the connection",
    ),
    (f"[08S01] {MICROSOFT}TCP Provider: Error code 0x68 (104) (SQLExecDirectW)", "the server closed the connection"),
    (
        f"[HY000] {MICROSOFT}SSPI Provider: No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0) "
        "(458752) (SQLDriverConnect)",
        "SSPI Provider: No Kerberos credentials available (default cache: FILE:/tmp/krb5cc_0) (error 458752): get a "
        "Kerberos ticket with kinit, or use a SQL login: --user of harness monitors, user in lab.toml",
    ),
    (
        f"[HYT00] {MICROSOFT}Login timeout expired (0) (SQLDriverConnect)",
        "Login timeout expired: no SQL Server answers there: check that it listens there and that it is healthy",
    ),
    (
        "[42S02] [FreeTDS][SQL Server]Invalid object name 'x'. (208) (SQLExecDirectW)",
        "Invalid object name 'x'. (error 208)",
    ),
    (
        "[01000] [FreeTDS][SQL Server]Unexpected EOF from the server (20017) (SQLExecDirectW)",
        "Unexpected EOF from the server (error 20017): the connection broke: check whether the server has ended",
    ),
    (
        "[HYT00] [FreeTDS][SQL Server]Timeout expired (0) (SQLExecDirectW)",
        "Timeout expired: no answer in time: check that it is SQL Server, that it is healthy and that nothing blocks it",
    ),
    (
        f"[42000] {MICROSOFT}[SQL Server]The replica of 'Orders' is not enabled for read access. (976) (SQLExecDirectW)",
        "The replica of 'Orders' is not enabled for read access. (error 976): connect to the primary replica, "
        "or to the listener of its group",
    ),
    (f"[42S02] {MICROSOFT}[SQL Server]Invalid name '\x1b[2J'. (208) (SQLx)", r"Invalid name '\u001b[2J'. (error 208)"),
]


@pytest.mark.parametrize("raw, expected", EXPLAINED)
def test_an_error_is_explained_with_its_remedy(raw: str, expected: str) -> None:
    assert error_text(Exception(raw[1:6], raw)) == expected


def test_text_before_the_drivers_words_is_kept() -> None:
    raw = f"thread 3: [42000] {MICROSOFT}[SQL Server]Invalid object name 'x'. (208) (SQLExecDirectW)"
    assert explain(raw) == "thread 3: Invalid object name 'x'. (error 208)"
    assert explain("thread 3: still in a call") == "thread 3: still in a call"


@pytest.mark.parametrize(
    "raw, lasts",
    [
        (f"[42000] {MICROSOFT}[SQL Server]Incorrect syntax near 'ONN'. (102) (SQLExecDirectW)", True),
        (f"[22012] {MICROSOFT}[SQL Server]Divide by zero error encountered. (8134) (SQLExecDirectW)", True),
        ("The activated proc '[dbo].[P]' running on queue 'D.dbo.Q' output the following: 'No such order'", True),
        (
            f"[42000] {MICROSOFT}[SQL Server]The transaction log for database 'D' is full. (9002) (SQLExecDirectW)",
            False,
        ),
        (f"[42000] {MICROSOFT}[SQL Server]Das Transaktionsprotokoll ist voll. (9002) (SQLExecDirectW)", False),
        (f"[40001] {MICROSOFT}[SQL Server]Rerun the transaction. (1205) (SQLExecDirectW)", False),
        (f"[08S01] {MICROSOFT}Communication link failure (0) (SQLExecDirectW)", False),
        (f"[HYT00] {MICROSOFT}Query timeout expired (0) (SQLExecDirectW)", False),
    ],
)
def test_an_error_that_can_pass_is_told_from_one_of_the_statement(raw: str, lasts: bool) -> None:
    assert error_remedies.is_lasting(raw) is lasts


def test_a_closed_port_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert error_remedies.out_of_reach("127.0.0.1", port) == ""
    assert (
        error_remedies.out_of_reach("127.0.0.1", port)
        == "nothing listens there: start the server, or check host and port"
    )


def test_an_unknown_host_is_reported() -> None:
    assert (
        error_remedies.out_of_reach("no-such-host.invalid", 1433)
        == "the host no-such-host.invalid is unknown: check its name"
    )
