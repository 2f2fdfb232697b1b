"""Requests of both drivers, read whole, byte by byte and with a tail."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from harness.embedded.tds.connection import Connection
from harness.embedded.tds.login7 import Login7
from harness.embedded.tds.requests import Attention, IsolationLevel, Rpc, SqlBatch, TransactionRequest
from harness.embedded.tds.requests import TransactionRequestType as Type
from tests.embedded.tds.captures import NAMES, fresh, logged_in, payloads, writes

HANDLE = "01B241A8-4CDE-45ED-9CC6-EAA548A341F3"
BODY = b"x" * 100
BODY_5000 = bytes(index % 251 for index in range(5000))


def summary(request: object) -> object:
    """What matters of a request, short enough to be written down."""
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


MOMENTS = ("2026-01-02 03:04:05.6780000", "2026-01-02")
LOGIN = ("sa", "Canned!1", "lab", 4096)
# Microsoft's driver asks for no new transaction of its own accord: it wants the next one to begin at once.
COMMIT = (Type.COMMIT, True, IsolationLevel.UNCHANGED)
EXPECTED: dict[str, list[object]] = {
    "microsoft_login": [LOGIN, [("[sys].sp_datatype_info_100", [12, 4])]],
    "freetds_login": [LOGIN, "sp_datatype_info_100 12,3"],
    "microsoft_batch": ["SELECT"],
    "freetds_batch": ["SELECT"],
    "microsoft_call": [[("sp_prepexecrpc", [None, "dbo.Quiet", HANDLE, BODY])]],
    "freetds_call": [[("dbo.Quiet", [HANDLE, BODY])]],
    "microsoft_attention": ["WAIT 30", "attention"],
    "freetds_attention": ["WAIT 30", "attention"],
    "microsoft_commit": [COMMIT],
    "freetds_commit": [COMMIT],
}


def read(connection: Connection, chunks: list[bytes]) -> list[object]:
    """What comes of the chunks; each request is answered at once, but for the one that an Attention ends."""
    requests: list[object] = []
    for chunk in chunks:
        for request in connection.receive(chunk):
            requests.append(request)
            if isinstance(request, Login7):
                connection.accept_login(request, request.database)
            elif summary(request) != "WAIT 30":
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
def test_every_request_parses_whole_byte_by_byte_and_with_a_tail(name, way):
    start = fresh if name.endswith("login") else logged_in
    expected = [summary(request) for request in read(start(), writes(name))]
    found = [summary(request) for request in read(start(), WAYS[way](writes(name)))]
    assert found == expected
    assert found[: len(EXPECTED.get(name, []))] == EXPECTED.get(name, [])


def calls(name: str) -> list[tuple[str, list[object]]]:
    """The calls in the last write of a capture."""
    connection = logged_in()
    (request,) = connection.receive(writes(name)[-1])
    assert isinstance(request, Rpc)
    return [(call.name, [parameter.value for parameter in call.parameters]) for call in request.calls]


@pytest.mark.parametrize("driver", ["microsoft", "freetds"])
def test_a_call_of_two_packets_has_its_body_whole(driver):
    ((name, values),) = calls(f"{driver}_exec_two_packets")
    assert name == "sp_prepexec"
    assert values[2:] == ["EXEC dbo.Quiet @P1, @P2", HANDLE, BODY_5000]


@pytest.mark.parametrize("driver", ["microsoft", "freetds"])
def test_values_too_long_for_a_length_of_two_bytes_come_in_chunks(driver):
    ((_, values),) = calls(f"{driver}_exec_max")[-1:]
    assert values[-2:] == ["y" * 4001, b"z" * 8001]


@pytest.mark.parametrize("driver", ["microsoft", "freetds"])
def test_values_of_every_type_the_drivers_choose_are_read(driver):
    ((_, values),) = calls(f"{driver}_types")
    assert values[3:8] == [-1, 2**40, 1.5, Decimal("-12.34"), MOMENTS[0]]
    assert values[8] == MOMENTS[1]
    assert values[10:] == [1, None]


def test_the_password_is_in_no_repr():
    login = Login7.decode(payloads("microsoft_login")[1])
    assert login.password == "Canned!1"
    assert "Canned" not in repr(login)
