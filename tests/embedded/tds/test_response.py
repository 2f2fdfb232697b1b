"""Tokens of responses: their order, and what each DONE says."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.sqltypes import INT, Column, SqlType
from harness.embedded.tds.packets import PacketType, PacketWriter
from harness.embedded.tds.response import STREAM_AT, Response, TokenType

DONES = {TokenType.DONE, TokenType.DONEPROC, TokenType.DONEINPROC}
COLUMNS = [Column("number", INT, nullable=False)]
INTEGERS = {"tinyint": (0, 255), "smallint": (-(2**15), 2**15 - 1), "int": (-(2**31), 2**31 - 1)}
INTEGERS["bigint"] = -(2**63), 2**63 - 1


class Sent:
    """A response that keeps its packets and reads its tokens."""

    def __init__(self, *, is_call: bool, packet_size: int = 4096) -> None:
        self.packets: list[bytes] = []
        writer = PacketWriter(PacketType.TABULAR_RESULT, packet_size, 51)
        self.response = Response(writer, self.packets.append, server="canned", is_call=is_call)
        self._packet_size = packet_size

    def payload(self) -> bytes:
        data, payload = b"".join(self.packets), b""
        while data:
            length = int.from_bytes(data[2:4], "big")
            payload, data = payload + data[8:length], data[length:]
        return payload

    def tokens(self) -> list[str]:
        """Names; a DONE with its status, a ROW with its only value, an ERROR with its number."""
        data, found = self.payload(), []
        while data:
            kind, data = TokenType(data[0]), data[1:]
            if kind in DONES:
                status, _, count = struct.unpack_from("<HHQ", data)
                words = [name for bit, name in STATUS.items() if status & bit]
                found.append(" ".join([kind.name, *words, *([str(count)] if status & 0x10 else [])]))
                data = data[12:]
            elif kind is TokenType.COLMETADATA:
                assert data[:2] == b"\1\0"
                found.append(kind.name)
                data = data[2 + 4 + 2 + 1 + 1 + 2 * data[9] :]
            elif kind is TokenType.ROW:
                found.append(f"ROW {int.from_bytes(data[:4], 'little')}")
                data = data[4:]
            elif kind is TokenType.RETURNSTATUS:
                found.append(f"RETURNSTATUS {int.from_bytes(data[:4], 'little')}")
                data = data[4:]
            elif kind is TokenType.RETURNVALUE:
                found.append(kind.name)
                data = data[2 + 1 + 2 * data[2] + 1 + 4 + 2 + 2 + 5 :]
            else:
                (length,) = struct.unpack_from("<H", data)
                number = int.from_bytes(data[2:6], "little") if kind in (TokenType.ERROR, TokenType.INFO) else ""
                found.append(f"{kind.name} {number}".strip())
                data = data[2 + length :]
        return found


STATUS = {0x01: "more", 0x02: "error", 0x20: "attention"}


@pytest.fixture
def batch() -> Sent:
    return Sent(is_call=False)


@pytest.fixture
def call() -> Sent:
    return Sent(is_call=True)


def test_a_batch_that_did_nothing_ends_in_one_done(batch):
    batch.response.finish()
    assert batch.tokens() == ["DONE"]


def test_only_the_last_done_of_a_batch_is_final(batch):
    response = batch.response
    response.done(3, in_procedure=False)
    response.columns(COLUMNS)
    response.rows([(1,), (2,)])
    response.done(2, in_procedure=False)
    response.done(1, in_procedure=False)
    response.finish()
    assert batch.tokens() == ["DONE more 3", "COLMETADATA", "ROW 1", "ROW 2", "DONE more 2", "DONE 1"]


def test_a_call_writes_its_status_and_output_values_before_its_done(call):
    response = call.response
    response.columns(COLUMNS)
    response.rows([(1,)])
    response.done(1, in_procedure=True)
    response.return_status(7)
    response.return_value(0, "@a", INT, 5)
    response.finish()
    assert call.tokens() == ["COLMETADATA", "ROW 1", "DONEINPROC more 1", "RETURNSTATUS 7", "RETURNVALUE", "DONEPROC"]


def test_a_call_that_counts_nothing_writes_only_its_status(call):
    call.response.done(None, in_procedure=True)
    call.response.return_status(0)
    call.response.finish()
    assert call.tokens() == ["RETURNSTATUS 0", "DONEPROC"]
    assert len(call.packets) == 1


def test_exec_in_a_batch_ends_in_doneproc(batch):
    response = batch.response
    response.done(1, in_procedure=True)
    response.return_status(0)
    response.done(2, in_procedure=False)
    response.finish()
    assert batch.tokens() == ["DONEINPROC more 1", "RETURNSTATUS 0", "DONEPROC more", "DONE 2"]


def test_several_calls_of_a_request_end_in_a_doneproc_each(call):
    response = call.response
    response.return_status(0)
    response.end_call()
    response.return_status(1)
    response.finish()
    assert call.tokens() == ["RETURNSTATUS 0", "DONEPROC more", "RETURNSTATUS 1", "DONEPROC"]


def test_the_done_after_an_error_says_error(batch):
    batch.response.error(SqlServerError(208, "it"))
    batch.response.finish()
    assert batch.tokens() == ["ERROR 208", "DONE error"]


def test_a_call_that_failed_says_error_before_its_doneproc(call):
    call.response.error(SqlServerError(208, "it"))
    call.response.finish()
    assert call.tokens() == ["ERROR 208", "DONEINPROC more error", "DONEPROC"]


def test_a_batch_that_continues_after_an_error_has_a_done_between(batch):
    response = batch.response
    response.error(SqlServerError(208, "it"))
    response.columns(COLUMNS)
    response.done(0, in_procedure=False)
    response.finish()
    assert batch.tokens() == ["ERROR 208", "DONE more error", "COLMETADATA", "DONE 0"]


def test_an_error_inside_a_result_set_ends_it(batch):
    response = batch.response
    response.columns(COLUMNS)
    response.rows([(1,)])
    response.error(SqlServerError(208, "it"))
    response.finish()
    assert batch.tokens() == ["COLMETADATA", "ROW 1", "ERROR 208", "DONE error"]


def test_a_message_of_low_severity_is_information(batch):
    batch.response.message(0, 0, 1, "hello", "", 1)
    batch.response.message(50000, 10, 1, "hello", "", 1)
    batch.response.finish()
    assert batch.tokens() == ["INFO 0", "INFO 50000", "DONE"]


def test_a_response_that_is_broken_off_ends_with_an_error(batch):
    batch.response.columns(COLUMNS)
    batch.response.rows([(1,)])
    batch.response.break_off()
    assert batch.tokens() == ["COLMETADATA", "ROW 1", "DONE error"]


def test_a_row_that_cannot_be_encoded_leaves_no_part_of_it(batch):
    response = batch.response
    response.columns(COLUMNS)
    with pytest.raises(TypeError):
        response.rows([(1,), (None,)])
    response.error(SqlServerError(208, "it"))
    response.finish()
    assert batch.tokens() == ["COLMETADATA", "ROW 1", "ERROR 208", "DONE error"]


@given(st.data())
def test_rows_of_integers_are_encoded_together_as_they_are_one_by_one(data):
    names = data.draw(st.lists(st.sampled_from(sorted(INTEGERS)), min_size=1, max_size=4))
    columns = [Column("number", SqlType(name), nullable=data.draw(st.booleans())) for name in names]
    values = [st.integers(*INTEGERS[name]) for name in names]
    null = [st.none() | value if column.nullable else value for column, value in zip(columns, values, strict=True)]
    rows = data.draw(st.lists(st.tuples(*data.draw(st.sampled_from([values, null]))), max_size=5))
    together, singly = Sent(is_call=False), Sent(is_call=False)
    for sent in (together, singly):
        sent.response.columns(columns)
    together.response.rows(rows)
    for row in rows:
        singly.response.rows([row])
    for sent in (together, singly):
        sent.response.finish()
    assert together.payload() == singly.payload()


def test_environment_changes_are_written_before_the_last_done(batch):
    response = batch.response
    response.done(1, in_procedure=False)
    response.database_changed("master", "lab")
    response.transaction_began(7)
    response.transaction_ended(7, committed=True)
    response.finish()
    assert batch.tokens() == ["DONE more 1", "ENVCHANGE", "ENVCHANGE", "ENVCHANGE", "DONE"]


@pytest.mark.parametrize(("committed", "kind"), [(True, 9), (False, 10)])
def test_the_end_of_a_transaction_is_reported_as_committed_or_rolled_back(batch, committed, kind):
    batch.response.transaction_ended(7, committed=committed)
    batch.response.finish()
    assert batch.tokens() == ["ENVCHANGE", "DONE"]
    assert batch.payload()[3] == kind
    assert batch.payload()[4:14] == b"\0\x08" + (7).to_bytes(8, "little")


def test_a_big_result_is_sent_in_full_packets_before_it_ends():
    sent = Sent(is_call=False, packet_size=512)
    sent.response.columns(COLUMNS)
    sent.response.rows([(number,) for number in range(STREAM_AT // 4)])
    assert sent.packets
    assert all(len(packets) % 512 == 0 for packets in sent.packets)
    sent.response.done(None, in_procedure=False)
    sent.response.finish()
    tokens = sent.tokens()
    assert tokens[1:-1] == [f"ROW {number}" for number in range(STREAM_AT // 4)]
    assert tokens[-1] == "DONE"


def test_text_longer_than_its_column_is_cut_to_it(batch):
    batch.response.columns([Column("t", SqlType("nvarchar", length=2))])
    batch.response.rows([("abcdef",)])
    batch.response.done(1, in_procedure=False)
    batch.response.finish()
    assert "ab".encode("utf-16-le") in batch.payload()
    assert "abc".encode("utf-16-le") not in batch.payload()


@pytest.mark.parametrize("what", ["rows", "messages", "counts"])
def test_whatever_a_response_consists_of_it_is_sent_in_parts(what):
    sent = Sent(is_call=False)
    sent.response.columns(COLUMNS)
    for _ in range(STREAM_AT // 4):
        if what == "rows":
            sent.response.rows([(1,)])
        elif what == "messages":
            sent.response.message(0, 0, 1, "x", "", 1)
        else:
            sent.response.done(1, in_procedure=False)
    assert sent.packets
    assert len(sent.payload()) > STREAM_AT - 4096
