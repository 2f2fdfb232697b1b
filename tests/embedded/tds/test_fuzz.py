"""Random and damaged bytes: the parsers raise protocol errors, or errors for the client, and nothing else."""

import contextlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.tds.login import Login7, Prelogin
from harness.embedded.tds.requests import Rpc, SqlBatch, TransactionRequest
from harness.embedded.tds.value_decoding import READERS, read_typed_value
from harness.embedded.tds.wire import ByteReader, TdsProtocolError
from tests.embedded.tds.captures import NAMES, fresh, logged_in, payloads, writes
from tests.examples import share

ALL_HEADERS = bytes.fromhex("16000000120000000200000000000000000001000000")


@st.composite
def damaged(draw: st.DrawFn, sources: list[bytes]) -> bytes:
    """A captured message with some bytes changed, perhaps cut short."""
    data = bytearray(draw(st.sampled_from(sources)))
    for _ in range(draw(st.integers(0, 6))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def sources(*endings: str, message: int) -> list[bytes]:
    return [payloads(name)[message] for name in NAMES if name.endswith(endings)]


@given(st.binary(max_size=200) | damaged(sources("login", message=0)))
@example(b"\xff")
def test_prelogin_raises_nothing_but_protocol_errors(data):
    with contextlib.suppress(TdsProtocolError):
        Prelogin.decode(data)


@given(st.binary(max_size=300) | damaged(sources("login", message=1)))
def test_login7_raises_nothing_but_protocol_errors(data):
    with contextlib.suppress(TdsProtocolError):
        Login7.decode(data)


@given(
    st.binary(max_size=300).map(lambda tail: ALL_HEADERS + tail)
    | damaged(sources("_call", "_exec", "types", message=-1))
)
def test_rpc_raises_nothing_but_errors_for_the_client_and_protocol_errors(data):
    with contextlib.suppress(TdsProtocolError, SqlServerError):
        Rpc.decode(False, data)


@settings(max_examples=share(1500))  # forty for each type
@given(st.sampled_from(sorted(READERS)), st.binary(max_size=40))
def test_every_type_raises_nothing_but_errors_for_the_client_and_protocol_errors(data_type, tail):
    with contextlib.suppress(TdsProtocolError, SqlServerError):
        read_typed_value(ByteReader(bytes([data_type]) + tail))


@given(st.binary(max_size=60).map(lambda tail: ALL_HEADERS + tail) | st.binary(max_size=60))
def test_batches_and_transaction_requests_raise_nothing_but_such_errors(data):
    for request in (SqlBatch, TransactionRequest):
        with contextlib.suppress(TdsProtocolError, SqlServerError):
            request.decode(False, data)


@given(st.sampled_from([fresh, logged_in]), st.lists(damaged([writes(name)[0] for name in NAMES]), max_size=4))
def test_a_connection_raises_nothing_but_protocol_errors(start, chunks):
    connection = start()
    with contextlib.suppress(TdsProtocolError):
        for chunk in chunks:
            connection.receive(chunk)
