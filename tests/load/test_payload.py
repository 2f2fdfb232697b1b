import zlib

import pytest

from harness.load.payload import HEADER_BYTES, STAMP, STAMP_OFFSET, Header, new_body, parse_header


def test_a_header_reads_back_as_it_was_written():
    body = new_body(100, run=7, initiator=3, thread=50)
    STAMP.pack_into(body, STAMP_OFFSET, 123, 1_700_000_000_000_000_001)
    assert parse_header(body) == Header(7, 3, 50, 123, 1_700_000_000_000_000_001)


def test_every_field_is_at_the_offset_that_t_sql_reads():
    body = new_body(100, run=0x01020304, initiator=0x0506, thread=0x0708)
    STAMP.pack_into(body, STAMP_OFFSET, 0x1112131415161718, 0x2122232425262728)
    assert body[:HEADER_BYTES] == b"SSBH" + bytes.fromhex(
        "01020304 0506 0708 00000000 1112131415161718 2122232425262728"
    )


@pytest.mark.parametrize("size", [100, 1024, 4096, 8192])
def test_a_body_has_its_size_and_does_not_compress(size):
    body = new_body(size, run=1, initiator=1, thread=1)
    assert len(body) == size
    assert len(zlib.compress(body, 9)) > size - HEADER_BYTES


def test_a_payload_too_small_for_the_header_is_refused():
    with pytest.raises(ValueError, match="31 bytes"):
        new_body(31, run=1, initiator=1, thread=1)


@pytest.mark.parametrize("body", [b"", b"SSBH", b"warm up" * 10])
def test_a_body_of_another_origin_is_refused(body):
    with pytest.raises(ValueError, match="does not begin"):
        parse_header(body)
