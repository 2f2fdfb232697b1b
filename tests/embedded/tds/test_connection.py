"""The states of a connection, and the answers that need no session."""

import contextlib
import ssl

import pytest

from harness.embedded.errors import SqlServerError
from harness.embedded.server.authentication import self_signed_context
from harness.embedded.tds.connection import TRANSITIONS, Connection, ConnectionState
from harness.embedded.tds.login import Encryption, Login7, Prelogin, PreloginOption
from harness.embedded.tds.packets import PacketReader, PacketType
from harness.embedded.tds.requests import (
    Attention,
    IsolationLevel,
    Refused,
    Rpc,
    SqlBatch,
    TransactionRequest,
    TransactionRequestType,
)
from harness.embedded.tds.wire import TdsProtocolError
from tests.embedded.server.bare_client import login7
from tests.embedded.tds.captures import SERVER, fresh, logged_in, payloads, writes

ALL_HEADERS = bytes.fromhex("16000000120000000200000000000000000001000000")


def packet(kind: PacketType, payload: bytes, status: int = 1) -> bytes:
    return bytes([kind, status]) + (8 + len(payload)).to_bytes(2, "big") + b"\0\0\1\0" + payload


def batch(text: str, status: int = 1) -> bytes:
    return packet(PacketType.SQL_BATCH, ALL_HEADERS + text.encode("utf-16-le"), status)


@pytest.mark.parametrize("is_sqlclient", [False, True])
def test_sqlclient_alone_is_told_that_there_is_no_mars(is_sqlclient):
    answer = bytes(Prelogin((17, 0, 1000), Encryption.OFF, is_sqlclient).encode())
    table = answer[: answer.index(0xFF)]
    assert (PreloginOption.MARS in table[::5]) is is_sqlclient


OUT_OF_TURN = [(state, kind) for state in ConnectionState for kind in PacketType if (state, kind) not in TRANSITIONS]


@pytest.mark.parametrize("state, kind", OUT_OF_TURN, ids=lambda part: part.name)
def test_a_packet_out_of_turn_is_a_protocol_error(state, kind):
    connection = fresh()
    connection.state = state
    with pytest.raises(TdsProtocolError, match=f"{kind.name} in state {state.name}"):
        connection.receive(packet(kind, b""))


def test_an_attention_may_come_while_the_login_is_checked():
    connection = fresh()
    connection.state = ConnectionState.LOGGING_IN
    assert connection.receive(packet(PacketType.ATTENTION, b"")) == [Attention()]
    assert connection.state is ConnectionState.LOGGING_IN


@pytest.mark.parametrize("wish", Encryption)
def test_without_a_certificate_no_encryption_is_offered(wish):
    sent: list[bytes] = []
    connection = Connection(SERVER, sent.append)
    connection.receive(packet(PacketType.PRELOGIN, bytes(Prelogin((0, 0, 0), wish).encode())))
    assert Prelogin.decode(sent[0][8:]) == Prelogin(SERVER.version, Encryption.NOT_SUPPORTED)
    assert connection.state is ConnectionState.LOGIN


def test_a_login_is_answered_with_what_the_client_asked_for():
    sent: list[bytes] = []
    connection = Connection(SERVER, sent.append)
    prelogin, login = writes("microsoft_login")[:2]
    connection.receive(prelogin)
    (request,) = connection.receive(login)
    assert isinstance(request, Login7)
    assert connection.state is ConnectionState.LOGGING_IN
    connection.accept_login(request, "lab", 51)
    assert connection.state is ConnectionState.IDLE
    assert "Changed database context to 'lab'.".encode("utf-16-le") in sent[1]
    program = b"\x14" + "Microsoft SQL Server".encode("utf-16-le")
    assert b"\xad\x32\0\x01\x74\0\0\x04" + program + b"\x0a\0\x17\x70" in sent[1]  # LOGINACK: TDS 7.4, 10.0.6000
    assert b"\xae\x0a\x01\0\0\0\x01\xff" in sent[1]  # FEATUREEXTACK: UTF8_SUPPORT


def test_a_client_that_encrypts_shakes_hands_in_packets_of_prelogin_and_logs_in_through_tls():
    sent: list[bytes] = []
    connection = Connection(SERVER, sent.append, tls=self_signed_context("canned"))
    connection.receive(packet(PacketType.PRELOGIN, bytes(Prelogin((0, 0, 0), Encryption.ON).encode())))
    assert Prelogin.decode(sent.pop()[8:]).encryption is Encryption.ON
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    client = context.wrap_bio(incoming, outgoing)
    while connection.state is ConnectionState.TLS_HANDSHAKE:
        with contextlib.suppress(ssl.SSLWantReadError):
            client.do_handshake()
        connection.receive(packet(PacketType.PRELOGIN, outgoing.read()))
        incoming.write(b"".join(message.payload for data in sent for message in PacketReader().feed(data)))
        sent.clear()
    client.do_handshake()
    client.write(writes("microsoft_login")[1])
    (request,) = connection.receive(outgoing.read())
    assert isinstance(request, Login7)
    connection.accept_login(request, "lab", 51)
    incoming.write(b"".join(sent))
    assert "Changed database context to 'lab'.".encode("utf-16-le") in client.read(65536)


@pytest.mark.parametrize("asked, granted", [(0, 4096), (100, 512), (8000, 8000), (60_000, 32_767)])
def test_the_packet_size_is_the_clients_within_limits(asked, granted):
    payload = bytearray(payloads("microsoft_login")[1])
    payload[8:12] = asked.to_bytes(4, "little")
    assert Login7.decode(bytes(payload)).packet_size == granted


def test_an_old_protocol_version_is_refused():
    payload = bytearray(payloads("microsoft_login")[1])
    payload[4:8] = (0x71000001).to_bytes(4, "little")
    with pytest.raises(TdsProtocolError, match=r"7\.2 is the oldest"):
        Login7.decode(bytes(payload))


@pytest.mark.parametrize("version", [0x72090002, 0x730A0003, 0x730B0003])
def test_the_bit_of_extensions_means_nothing_before_tds_7_4(version):
    payload = bytearray(payloads("microsoft_login")[1])
    payload[4:8] = version.to_bytes(4, "little")
    payload[27] |= 0x10  # tedious sets it, and has no extensions
    payload[56:60] = bytes(4)
    assert Login7.decode(bytes(payload)).features == frozenset()


@pytest.mark.parametrize("typed, what", [("f3", "table-valued parameters"), ("f0", "CLR types"), ("62", "sql_variant")])
def test_a_parameter_of_an_unsupported_type_is_refused_by_name(typed, what):
    name = "dbo.p".encode("utf-16-le")
    call = ALL_HEADERS + b"\5\0" + name + b"\0\0" + b"\0\0" + bytes.fromhex(typed) + bytes(20)
    (request,) = logged_in().receive(packet(PacketType.RPC, call))
    assert isinstance(request, Refused)
    assert what in request.error.text


def test_a_login_names_what_it_cannot_have():
    login = bytearray(login7("sa", "word")[8:])
    assert Login7.decode(bytes(login)).unsupported == ""
    login[82:86] = login[40:44]  # the file is called as the user
    assert "the attachment of a file" in Login7.decode(bytes(login)).unsupported
    login[27] |= 1
    assert "another password" in Login7.decode(bytes(login)).unsupported


def test_a_query_notification_is_refused_and_a_trace_header_is_skipped():
    trace, notification = bytes.fromhex("1a0000000300") + bytes(20), bytes.fromhex("0a0000000100") + bytes(4)
    descriptor, text = ALL_HEADERS[4:], "SELECT".encode("utf-16-le")

    def received(*headers):
        all_headers = b"".join(headers)
        payload = (4 + len(all_headers)).to_bytes(4, "little") + all_headers + text
        return logged_in().receive(packet(PacketType.SQL_BATCH, payload))

    assert received(trace, descriptor, bytes.fromhex("060000000300")) == [SqlBatch(False, "SELECT")]
    (request,) = received(descriptor, notification)
    assert isinstance(request, Refused)
    assert "query notifications" in request.error.text
    with pytest.raises(TdsProtocolError):
        received(descriptor, bytes.fromhex("050000000300"))


def test_several_calls_in_one_request_are_read_one_by_one():
    name = "dbo.p".encode("utf-16-le")
    parameter = b"\0\0" + bytes.fromhex("26 04 04 07000000")
    call = b"\5\0" + name + b"\0\0" + parameter
    (request,) = logged_in().receive(packet(PacketType.RPC, ALL_HEADERS + call + b"\xff" + call + b"\xff"))
    assert isinstance(request, Rpc)
    assert [(one.name, one.parameters[0].value) for one in request.calls] == [("dbo.p", 7)] * 2


def test_an_output_parameter_is_recognised_by_its_flag():
    named = b"\2" + "@a".encode("utf-16-le") + b"\1" + bytes.fromhex("26 04 00")
    (request,) = logged_in().receive(packet(PacketType.RPC, ALL_HEADERS + b"\xff\xff\x0a\0\0\0" + named))
    assert isinstance(request, Rpc)
    ((name, (parameter,)),) = request.calls
    assert name == "sp_executesql"
    assert (parameter.name, parameter.value, parameter.output) == ("@a", None, True)


def test_a_parameter_left_to_its_default_is_left_out():
    name = "dbo.p".encode("utf-16-le")
    default = b"\2" + "@a".encode("utf-16-le") + b"\2" + bytes.fromhex("26 04 00")
    other = b"\2" + "@b".encode("utf-16-le") + b"\0" + bytes.fromhex("26 04 04 01000000")
    (request,) = logged_in().receive(packet(PacketType.RPC, ALL_HEADERS + b"\5\0" + name + b"\0\0" + default + other))
    assert isinstance(request, Rpc)
    assert [parameter.name for parameter in request.calls[0].parameters] == ["@b"]


@pytest.mark.parametrize("status, reset", [(1, False), (9, True), (0x11, True)])
def test_a_reset_is_part_of_the_request_that_asks_for_it(status, reset):
    assert logged_in().receive(batch("SELECT", status)) == [SqlBatch(reset, "SELECT")]


def test_an_attention_while_idle_is_acknowledged_at_once():
    sent: list[bytes] = []
    connection = Connection(SERVER, sent.append)
    connection.state = ConnectionState.IDLE
    assert connection.receive(packet(PacketType.ATTENTION, b"")) == []
    assert sent[0][8:11] == b"\xfd\x20\x00"


def test_the_acknowledgement_of_an_attention_is_a_message_of_its_own():
    sent: list[bytes] = []
    connection = Connection(SERVER, sent.append)
    connection.state = ConnectionState.IDLE
    connection.receive(batch("SELECT"))
    response = connection.begin_response(is_call=False)
    assert connection.receive(packet(PacketType.ATTENTION, b"")) == [Attention()]
    connection.break_off(response)
    messages = PacketReader().feed(b"".join(sent))
    assert [message.payload[:3] for message in messages] == [b"\xfd\x02\x00", b"\xfd\x20\x00"]
    assert connection.state is ConnectionState.IDLE


def test_a_request_that_its_last_packet_gives_up_is_answered_with_an_error_and_nothing_else():
    sent: list[bytes] = []
    connection = Connection(SERVER, sent.append)
    connection.state = ConnectionState.IDLE
    assert connection.receive(batch("SEL", status=0) + packet(PacketType.SQL_BATCH, b"ECT", status=3)) == []
    [message] = PacketReader().feed(b"".join(sent))
    payload = message.payload
    assert payload[:3] == b"\xfd\x02\x00" and len(payload) == 13
    assert connection.receive(batch("SELECT")) == [SqlBatch(False, "SELECT")]


def transaction_request(kind: int, name: str, before: bytes = b"", after: bytes = b"") -> bytes:
    """As tedious sends it: the length of a name is in bytes."""
    encoded = name.encode("utf-16-le")
    body = kind.to_bytes(2, "little") + before + bytes((len(encoded),)) + encoded + after
    return packet(PacketType.TRANSACTION_MANAGER_REQUEST, ALL_HEADERS + body)


@pytest.mark.parametrize("level", range(6))
def test_a_transaction_begins_with_its_isolation_level(level):
    (request,) = logged_in().receive(transaction_request(TransactionRequestType.BEGIN, "t", bytes((level,))))
    assert isinstance(request, TransactionRequest) and request.isolation == level


@pytest.mark.parametrize("name", ["", "t", "savepoint", "\N{GRINNING FACE}"])
def test_the_names_of_transactions_and_savepoints_have_lengths_in_bytes(name):
    begin, read_committed = TransactionRequestType.BEGIN, IsolationLevel.READ_COMMITTED
    save, rollback = TransactionRequestType.SAVE, TransactionRequestType.ROLLBACK
    assert logged_in().receive(transaction_request(begin, name, b"\2")) == [
        TransactionRequest(False, begin, name, read_committed)
    ]
    assert logged_in().receive(transaction_request(save, name)) == [TransactionRequest(False, save, name)]
    assert logged_in().receive(transaction_request(rollback, name, after=b"\0")) == [
        TransactionRequest(False, rollback, name)
    ]
    assert logged_in().receive(transaction_request(rollback, name, after=b"\1\0\0")) == [
        TransactionRequest(False, rollback, name, begin_next=True)
    ]


def test_a_refused_login_is_an_error_and_the_end_of_the_response():
    sent: list[bytes] = []
    Connection(SERVER, sent.append).refuse_login(SqlServerError(18456, "somebody"))
    [message] = PacketReader().feed(b"".join(sent))
    assert message.payload[:1] == b"\xaa" and message.payload[-13:-10] == b"\xfd\x02\0"


def test_a_connection_takes_more_than_a_login_only_once_it_is_logged_in():
    part = packet(PacketType.LOGIN7, bytes(32_000), status=0)
    with pytest.raises(TdsProtocolError, match="before the login"):
        fresh().receive(3 * part)
    connection = fresh()
    connection.receive(writes("microsoft_login")[0])
    (request,) = connection.receive(writes("microsoft_login")[1])
    connection.accept_login(request, "lab", 51)
    assert connection.receive(3 * packet(PacketType.SQL_BATCH, bytes(32_000), status=0)) == []


def test_an_attention_that_arrives_with_its_request_is_handed_out_after_it():
    requests = logged_in().receive(batch("SELECT") + packet(PacketType.ATTENTION, b""))
    assert requests == [SqlBatch(False, "SELECT"), Attention()]


def test_a_second_request_before_the_answer_is_a_protocol_error():
    with pytest.raises(TdsProtocolError):
        logged_in().receive(batch("SELECT") + batch("SELECT"))
