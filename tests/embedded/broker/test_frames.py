"""Frames as bytes: whatever a peer sends becomes typed, bounded values or one ValueError."""

import contextlib
import math
import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.broker.frames import (
    RECORD_FRAMES_MAX,
    AcknowledgementFrame,
    DialogHeader,
    ErrorFrame,
    MessageFrame,
    pack_frames,
    unpack_frames,
)
from tests.embedded.broker.frame_fuzzer import FrameFuzzer

ID, BROKER = "0F8FAD5B-D9CB-469F-A165-70867728950E", "7C9E6679-7425-40DE-944B-E07FC1F90AE7"
HEADER = DialogHeader("to", None, "from", BROKER, "contract", None, False, None)
FRAMES = [
    MessageFrame(ID, True, 3, "type", b"body", False, 5, HEADER),
    MessageFrame(ID, False, 0, "type", None, True, 5, HEADER),
    AcknowledgementFrame(ID, False, 3, BROKER),
    ErrorFrame(ID, True, -8490, "text"),
]
MESSAGE = msgspec.msgpack.decode(pack_frames(FRAMES[:1]))[0]
KIND, CONVERSATION, FROM_INITIATOR, SEQUENCE, MESSAGE_TYPE, BODY, FIRST, PRIORITY, OF_DIALOG = range(len(MESSAGE))
LIFETIME = 5  # in the header


def test_frames_survive_packing_and_unpacking():
    assert unpack_frames(pack_frames(FRAMES)) == FRAMES


@pytest.mark.parametrize("record", [b"", b"\xc1", b"\x91\x07", pack_frames(FRAMES)[:-1], b"\x91\x91\x09"])
def test_an_invalid_record_is_a_value_error(record):
    with pytest.raises(ValueError, match="invalid record of frames"):
        unpack_frames(record)


@pytest.mark.parametrize(
    "place, value",
    [
        (KIND, 4),
        (CONVERSATION, "conversation"),
        (CONVERSATION, ID.lower()),
        (CONVERSATION, ID + "\n"),
        (FROM_INITIATOR, 1),
        (SEQUENCE, -1),
        (SEQUENCE, 1.0),
        (SEQUENCE, 2**63),
        (MESSAGE_TYPE, "x" * 257),
        (MESSAGE_TYPE, None),
        (BODY, 5),
        (BODY, "text"),
        (FIRST, None),
        (PRIORITY, 0),
        (PRIORITY, 11),
        (OF_DIALOG, None),
        (OF_DIALOG, MESSAGE[OF_DIALOG][:-1]),
        (OF_DIALOG, [*MESSAGE[OF_DIALOG], None]),
        (OF_DIALOG, [*MESSAGE[OF_DIALOG][:LIFETIME], "x", False, None]),
        (OF_DIALOG, [*MESSAGE[OF_DIALOG][:LIFETIME], 2**63, False, None]),
    ],
)
def test_a_field_of_the_wrong_type_or_size_is_refused_without_its_value(place, value):
    frame = [*MESSAGE[:place], value, *MESSAGE[place + 1 :]]
    with pytest.raises(ValueError, match="invalid record of frames") as refusal:
        unpack_frames(msgspec.msgpack.encode([frame]))
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("frame", FRAMES[1:], ids=lambda frame: type(frame).__name__)
def test_a_frame_with_one_more_field_is_refused(frame):
    [fields] = msgspec.msgpack.decode(pack_frames([frame]))
    with pytest.raises(ValueError, match="invalid record of frames"):
        unpack_frames(msgspec.msgpack.encode([[*fields, None]]))


def test_a_record_of_more_frames_than_the_limit_is_refused():
    assert len(unpack_frames(pack_frames(FRAMES[2:3] * RECORD_FRAMES_MAX))) == RECORD_FRAMES_MAX
    with pytest.raises(ValueError, match=re.escape(f"length <= {RECORD_FRAMES_MAX}")):
        unpack_frames(pack_frames(FRAMES[2:3] * (RECORD_FRAMES_MAX + 1)))


PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False).filter(math.isfinite)
    | st.text(max_size=40)
    | st.binary(max_size=40)
    | st.sampled_from([ID, BROKER, "type", HEADER])
)
NESTED = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=9), max_leaves=12)


@given(st.lists(st.tuples(st.integers(0, 4), NESTED, NESTED, NESTED, NESTED) | NESTED, max_size=3) | NESTED)
def test_whatever_is_unpacked_packs_to_the_same_frames(value):
    with contextlib.suppress(ValueError):
        frames = unpack_frames(msgspec.msgpack.encode(value))
        assert unpack_frames(pack_frames(frames)) == frames


@given(st.binary(max_size=200))
def test_random_bytes_raise_nothing_but_value_errors(data):
    with contextlib.suppress(ValueError):
        unpack_frames(data)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_brokers_survive_the_frames_of_a_hostile_peer(seed):
    outcome = FrameFuzzer(seed).run(60)
    assert outcome.refused > 30 and outcome.taken > 30
