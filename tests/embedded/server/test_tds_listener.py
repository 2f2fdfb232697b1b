"""The TDS listener and clients that are killed, break the protocol, or are bare sockets."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

import pyodbc
import pytest

from tests.embedded.tds.captures import writes
from tests.waiting import wait_until

pytestmark = pytest.mark.process

ALL_HEADERS = bytes.fromhex("16000000120000000200000000000000000001000000")
RESET = 0x08


@pytest.fixture
def client(canned_port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", canned_port), timeout=120) as opened:
        yield opened


def read_message(client: socket.socket) -> bytes:
    """The payload of one message from the server."""
    payload, status = b"", 0
    while not status & 1:
        header = client.recv(8, socket.MSG_WAITALL)
        status = header[1]
        payload += client.recv(int.from_bytes(header[2:4], "big") - 8, socket.MSG_WAITALL)
    return payload


def log_in(client: socket.socket) -> None:
    for data in writes("microsoft_login")[:2]:
        client.sendall(data)
        read_message(client)


def batch(text: str, status: int = 0) -> bytes:
    payload = ALL_HEADERS + text.encode("utf-16-le")
    return bytes([1, 1 | status]) + (8 + len(payload)).to_bytes(2, "big") + b"\0\0\1\0" + payload


def test_a_reset_is_done_before_its_request_and_acknowledged(client):
    log_in(client)
    client.sendall(batch("LOG", RESET))
    answer = read_message(client)
    assert answer.startswith(bytes.fromhex("e3 0300 12 00 00"))
    assert "reset".encode("utf-16-le") in answer


def test_a_request_cancelled_before_it_ran_never_runs(client):
    log_in(client)
    client.sendall(batch("UPDATE") + bytes.fromhex("06 01 0008 0000 01 00"))
    assert read_message(client)[-13:-10] == b"\xfd\x02\x00"
    assert read_message(client)[-13:-10] == b"\xfd\x20\x00"
    client.sendall(batch("LOG"))
    assert read_message(client)[-13:] == bytes.fromhex("fd 1000 c100 0000000000000000")


@pytest.mark.parametrize(
    "sent",
    [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\xff" * 100, batch("SELECT")],
    ids=["HTTP", "TLS first", "garbage", "a request before login"],
)
def test_a_client_that_breaks_the_protocol_is_disconnected(client, sent):
    client.sendall(sent)
    assert client.recv(1) == b""


CLIENT = """
import sys, pyodbc
pyodbc.connect(sys.argv[1], autocommit=True, timeout=120).execute(sys.argv[2])
"""


@pytest.mark.parametrize("statement", ["WAIT 60", "BEGIN; WAIT 60"])
def test_a_client_killed_during_a_call_leaves_no_session_and_no_task(connection_string, connect, statement):
    watcher = connect()

    def counts() -> pyodbc.Row:
        return watcher.execute("COUNTS").fetchone()

    before = counts().closed
    process = subprocess.Popen([sys.executable, "-c", CLIENT, connection_string(), statement])
    try:
        wait_until(lambda: counts().waiting == 1)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    wait_until(lambda: counts().waiting == 0)
    assert counts().closed == before + 1
