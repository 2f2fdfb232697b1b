"""Messages cut into packets and joined again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.tds import packets
from harness.embedded.tds.wire import ByteWriter, TdsProtocolError


def packet(kind: int, status: int, payload: bytes) -> bytes:
    return bytes([kind, status]) + (packets.HEADER_SIZE + len(payload)).to_bytes(2, "big") + b"\0\0\1\0" + payload


END, MORE = packets.PacketStatus.END_OF_MESSAGE, packets.PacketStatus.NORMAL


@given(st.binary(max_size=5000), st.integers(512, 1500), st.integers(1, 700))
def test_a_message_cut_into_packets_and_then_anywhere_is_read_unchanged(payload, packet_size, cut):
    out = ByteWriter(payload)
    writer = packets.PacketWriter(packets.PacketType.RPC, packet_size)
    sent = writer.take_full_packets(out) + writer.finish(out)
    reader = packets.PacketReader()
    messages = [message for at in range(0, len(sent), cut) for message in reader.feed(sent[at : at + cut])]
    status = END if len(payload) <= packet_size - packets.HEADER_SIZE else MORE
    assert messages == [packets.Message(packets.PacketType.RPC, status, payload)]


def test_all_packets_but_the_last_have_the_negotiated_size():
    sent = packets.PacketWriter(packets.PacketType.TABULAR_RESULT, 512).finish(ByteWriter(bytes(504 + 504 + 3)))
    assert [int.from_bytes(sent[at + 2 : at + 4], "big") for at in (0, 512, 1024)] == [512, 512, 11]
    assert [sent[at + 1] for at in (0, 512, 1024)] == [MORE, MORE, END]
    assert [sent[at + 6] for at in (0, 512, 1024)] == [1, 2, 3]


def test_a_payload_that_fills_its_packets_is_not_followed_by_an_empty_one():
    assert len(packets.PacketWriter(packets.PacketType.TABULAR_RESULT, 512).finish(ByteWriter(bytes(504 * 2)))) == 1024


def test_the_status_of_a_message_is_that_of_its_first_packet():
    reader = packets.PacketReader()
    assert reader.feed(packet(packets.PacketType.RPC, packets.PacketStatus.RESET_CONNECTION, b"a")) == []
    assert reader.feed(packet(packets.PacketType.RPC, END, b"b")) == [
        packets.Message(packets.PacketType.RPC, packets.PacketStatus.RESET_CONNECTION, b"ab")
    ]


def test_an_attention_inside_a_request_voids_the_request():
    reader = packets.PacketReader()
    reader.feed(packet(packets.PacketType.RPC, MORE, b"half"))
    assert reader.feed(packet(packets.PacketType.ATTENTION, END, b"")) == [
        packets.Message(packets.PacketType.ATTENTION, END, b"")
    ]
    assert reader.feed(packet(packets.PacketType.RPC, END, b"new")) == [
        packets.Message(packets.PacketType.RPC, END, b"new")
    ]


def test_a_message_whose_last_packet_says_ignore_is_marked_and_empty():
    reader = packets.PacketReader()
    reader.feed(packet(packets.PacketType.RPC, packets.PacketStatus.RESET_CONNECTION, b"half"))
    ignored = reader.feed(packet(packets.PacketType.RPC, END | packets.PacketStatus.IGNORE, b""))
    assert ignored == [packets.Message(packets.PacketType.RPC, packets.PacketStatus.IGNORE, b"")]
    assert reader.feed(packet(packets.PacketType.SQL_BATCH, END, b"new")) == [
        packets.Message(packets.PacketType.SQL_BATCH, END, b"new")
    ]


@pytest.mark.parametrize(
    "data",
    [
        packet(0x05, END, b""),
        b"\x01\x01\x00\x07\0\0\1\0",
        b"GET / HTTP/1.1\r\n\r\n",
        packet(packets.PacketType.RPC, MORE, b"") + packet(packets.PacketType.SQL_BATCH, END, b""),
    ],
    ids=["unknown type", "shorter than its header", "another protocol", "another type inside a message"],
)
def test_bytes_that_are_not_a_valid_packet_are_a_protocol_error(data):
    with pytest.raises(TdsProtocolError):
        packets.PacketReader().feed(data)


def test_a_long_message_before_the_login_breaks_the_protocol():
    reader = packets.PacketReader(is_logged_in=False)
    part = packet(packets.PacketType.LOGIN7, MORE, bytes(packets.LOGIN_SIZE_MAX // 2))
    assert reader.feed(part) + reader.feed(part) == []
    with pytest.raises(TdsProtocolError, match="a message of more than"):
        reader.feed(part)


def test_a_request_beyond_the_limit_is_dropped_up_to_its_end_and_the_next_is_read():
    reader = packets.PacketReader(is_logged_in=False)
    reader.log_in(512)
    part, last = (
        packet(packets.PacketType.SQL_BATCH, MORE, bytes(504)),
        packet(packets.PacketType.SQL_BATCH, END, bytes(504)),
    )
    found: list[packets.Message] = []
    for _ in range(packets.PACKETS_MAX * 512 // (504 * 64) + 1):
        found += reader.feed(part * 64)
    assert found == [] and len(reader._payload) == 0
    [large] = reader.feed(last)
    assert large.is_too_large and large.payload == b""
    [small] = reader.feed(last)
    assert not small.is_too_large and len(small.payload) == 504


def test_long_requests_of_all_connections_share_room_and_give_it_back():
    room = packets.Room()
    room.free = 2 * packets.LONG_REQUEST
    first, second = packets.PacketReader(room=room), packets.PacketReader(room=room)
    part = packet(packets.PacketType.SQL_BATCH, MORE, bytes(32_000))
    for _ in range(2 * packets.LONG_REQUEST // 32_000):
        assert first.feed(part) == second.feed(part) == []
    for _ in range(packets.LONG_REQUEST // 32_000):
        first.feed(part)
    [large] = first.feed(packet(packets.PacketType.SQL_BATCH, END, b""))
    assert large.is_too_large
    assert 0 < room.free < 2 * packets.LONG_REQUEST
    second.feed(packet(packets.PacketType.ATTENTION, END, b""))
    assert room.free == 2 * packets.LONG_REQUEST
    [whole] = second.feed(packet(packets.PacketType.SQL_BATCH, END, b"new"))
    assert not whole.is_too_large
