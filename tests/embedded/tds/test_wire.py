"""The wire types of [MS-TDS]."""

from harness.embedded.tds.wire import ByteWriter


def test_half_a_surrogate_pair_is_sent_as_a_replacement_character():
    out = ByteWriter()
    out.us_varchar("a\ud83db")
    assert bytes(out) == b"\3\0" + "a\ufffdb".encode("utf-16-le")
