"""Requests that both drivers sent, read whole, byte by byte and with a tail."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from harness.embedded.tds.connection import Connection
from harness.embedded.tds.login import Login7
from harness.embedded.tds.requests import Attention, IsolationLevel, Rpc, SqlBatch, TransactionRequest
from harness.embedded.tds.requests import TransactionRequestType as Type
from tests.embedded.tds.captures import NAMES, fresh, logged_in, payloads, writes

HANDLE = "01B241A8-4CDE-45ED-9CC6-EAA548A341F3"
BODY = b"x" * 100
BODY_5000 = bytes(index % 251 for index in range(5000))
LONG = ["y" * 4001, b"z" * 8001]  # too long for a length of two bytes: sent in chunks
TYPED = [-1, 2**40, 1.5, Decimal("-12.34"), "2026-01-02 03:04:05.6780000", "2026-01-02"]
SEND = "EXEC dbo.Quiet @P1, @P2"
SEND_TYPED = "EXEC dbo.Quiet @P1,@P2,@P3,@P4,@P5,@P6,@P7,@P8,@P9"
TYPES = "@P1 int,@P2 bigint,@P3 float,@P4 numeric(4,2),@P5 datetime2,@P6 date,@P7 time,@P8 bit,@P9 varchar(1)"
LOGIN = ("sa", "Canned!1", "lab", 4096)
BEGIN = (Type.BEGIN, False, IsolationLevel.UNCHANGED)
# Microsoft's driver begins each further transaction with the end of the one before.
COMMIT = (Type.COMMIT, True, IsolationLevel.UNCHANGED)
ROLLBACK = (Type.ROLLBACK, True, IsolationLevel.UNCHANGED)
EXPECTED: dict[str, list[object]] = {
    "freetds_attention": ["WAIT 30", "attention"],
    "freetds_batch": ["SELECT"],
    "freetds_begin": [BEGIN, "UPDATE"],
    "freetds_call": [[("dbo.Quiet", [HANDLE, BODY])]],
    "freetds_commit": [COMMIT],
    "freetds_exec": [[("sp_prepexec", [None, "@P1 UNIQUEIDENTIFIER,@P2 VARBINARY(100)", SEND, HANDLE, BODY])]],
    "freetds_exec_max": [
        [("sp_unprepare", [2])],
        [("sp_prepexec", [None, "@P1 NVARCHAR(MAX),@P2 VARBINARY(MAX)", SEND, *LONG])],
    ],
    "freetds_exec_two_packets": [
        [("sp_unprepare", [1])],
        [("sp_prepexec", [None, "@P1 UNIQUEIDENTIFIER,@P2 VARBINARY(5000)", SEND, HANDLE, BODY_5000])],
    ],
    "freetds_login": [LOGIN, "sp_datatype_info_100 12,3"],
    "freetds_rollback": ["UPDATE", ROLLBACK],
    "freetds_types": [
        [("sp_unprepare", [3])],
        [("sp_prepexec", [None, TYPES.upper(), SEND_TYPED, *TYPED, "03:04:05.0000000", 1, None])],
    ],
    "microsoft_attention": ["WAIT 30", "attention"],
    "microsoft_batch": ["SELECT"],
    "microsoft_begin": [BEGIN, [("sp_unprepare", [6])], "UPDATE"],
    "microsoft_call": [[("sp_prepexecrpc", [None, "dbo.Quiet", HANDLE, BODY])]],
    "microsoft_commit": [COMMIT],
    "microsoft_exec": [[("sp_prepexec", [2, "@P1 uniqueidentifier,@P2 varbinary(100)", SEND, HANDLE, BODY])]],
    "microsoft_exec_max": [[("sp_prepare", [4, "@P1 ntext,@P2 image", SEND, 1])], [("sp_execute", [5, *LONG])]],
    "microsoft_exec_two_packets": [
        [("sp_prepexec", [3, "@P1 uniqueidentifier,@P2 varbinary(5000)", SEND, HANDLE, BODY_5000])]
    ],
    "microsoft_login": [LOGIN, [("[sys].sp_datatype_info_100", [12, 4])]],
    "microsoft_rollback": ["UPDATE", ROLLBACK],
    "microsoft_types": [
        [("[sys].sp_sproc_columns_100", ["Quiet", "dbo", 3])],
        [("sp_prepexec", [5, TYPES, SEND_TYPED, *TYPED, "03:04:05", 1, None])],
    ],
}


def summary(request: object) -> object:
    """The parts of a request that EXPECTED lists."""
    if isinstance(request, Rpc):
        return [(call.name, [parameter.value for parameter in call.parameters]) for call in request.calls]
    if isinstance(request, SqlBatch):
        return request.text
    if isinstance(request, TransactionRequest):
        return request.type, request.begin_next, request.isolation
    if isinstance(request, Login7):
        return request.user, request.password, request.database, request.packet_size
    assert isinstance(request, Attention)
    return "attention"


def read(connection: Connection, chunks: list[bytes]) -> list[object]:
    """The requests in the chunks. Each is answered at once, except the one that an Attention ends."""
    requests: list[object] = []
    for chunk in chunks:
        for request in connection.receive(chunk):
            requests.append(summary(request))
            if isinstance(request, Login7):
                connection.accept_login(request, request.database, 51)
            elif requests[-1] != "WAIT 30":
                connection.end_response()
    return requests


TAIL = b"\x01\x01\x00\x0a\x00\x00\x01\x00\xff"  # the start of another packet
WAYS: dict[str, Callable[[list[bytes]], list[bytes]]] = {
    "whole": lambda sent: sent,
    "byte by byte": lambda sent: [bytes([byte]) for data in sent for byte in data],
    "with a tail": lambda sent: [*sent[:-1], sent[-1] + TAIL],
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NAMES)
def test_a_captured_request_is_read_whole_byte_by_byte_and_with_a_tail(name, way):
    connection = fresh() if name.endswith("login") else logged_in()
    assert read(connection, WAYS[way](writes(name))) == EXPECTED[name]


def test_the_repr_of_a_login_does_not_show_the_password():
    login = Login7.decode(payloads("microsoft_login")[1])
    assert login.password == "Canned!1"
    assert "Canned" not in repr(login)
