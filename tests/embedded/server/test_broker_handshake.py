"""The handshake of two brokers, and what protects the records after it, as bytes."""

import contextlib

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedded.server.broker_handshake import MESSAGE_SIZE_MAX, Handshake, HandshakeError, quoted
from tests.embedded.server.broker_sides import EndpointLink, Impostor, acquainted
from tests.examples import share

ONE, OTHER = EndpointLink("one"), EndpointLink("other")
acquainted(ONE, OTHER)
RECORDS = [b"first record", b"", b"third" * 1000]


def sides(connecting=ONE, listening=OTHER):
    return Handshake("one", connecting, is_connecting=True), Handshake("other", listening, is_connecting=False)


def exchange(connecting, listening, damage=lambda place, record: record):
    """Carry records until both are done; `damage` changes them on the way. Return the records sent."""
    sent = []
    waiting = [(listening, record) for record in connecting.start]
    while waiting:
        receiver, record = waiting.pop(0)
        sent.append(record)
        sender = connecting if receiver is listening else listening
        waiting += [(sender, answer) for answer in receiver.receive(damage(len(sent) - 1, record))]
    return sent


def test_both_sides_learn_each_others_name_and_share_keys():
    connecting, listening = sides()
    exchange(connecting, listening)
    assert connecting.is_done and listening.is_done
    assert (connecting.peer, listening.peer) == ("other", "one")
    for sender, receiver in ((connecting, listening), (listening, connecting)):
        for record in RECORDS:
            assert receiver.receiving.open(sender.sending.seal(record)) == record


def test_a_certificate_without_its_private_key_is_worthless():
    for stolen in (OTHER.pair.blob, ONE.pair.blob):
        OTHER.known.append(stolen)
        connecting, listening = sides(connecting=Impostor(stolen))
        connecting._link.known = [OTHER.pair.blob]
        with pytest.raises(HandshakeError, match="'one' does not prove that it owns its certificate"):
            exchange(connecting, listening)
        assert not listening.is_done
    connecting, listening = sides(listening=Impostor(OTHER.pair.blob))
    listening._link.known = [ONE.pair.blob]
    with pytest.raises(HandshakeError, match="'other' does not prove that it owns its certificate"):
        exchange(connecting, listening)


def test_an_unknown_certificate_is_refused_before_the_own_one_is_shown():
    connecting, listening = sides(connecting=EndpointLink("stranger"))
    with pytest.raises(HandshakeError, match="the certificate is not known") as refusal:
        exchange(connecting, listening)
    assert OTHER.pair.blob not in refusal.value.answer
    with pytest.raises(HandshakeError, match="the certificate is not known"):
        connecting.receive(refusal.value.answer)


def test_a_recorded_handshake_opens_no_other_connection():
    connecting, listening = sides()
    recorded = exchange(connecting, listening)
    hello, _, _, proof, *_ = recorded
    _, again = sides()
    again.receive(hello)
    with pytest.raises(HandshakeError, match="does not prove"):
        again.receive(proof)
    assert not again.is_done


def test_a_proof_cannot_be_reflected():
    link = EndpointLink("twin")
    link.known = [link.pair.blob]
    connecting, listening = Handshake("a", link, is_connecting=True), Handshake("b", link, is_connecting=False)
    hello, proof = listening.receive(connecting.start[0])
    connecting.receive(hello)
    with pytest.raises(HandshakeError, match="does not prove"):
        listening.receive(proof)


@given(st.integers(0, 4), st.integers(0, 10**6), st.integers(1, 255))
@settings(max_examples=share(60), deadline=None)
def test_one_changed_byte_of_the_handshake_ends_it(place, at, change):
    def damage(number, record):
        if number != place:
            return record
        changed = bytearray(record)
        changed[at % len(record)] ^= change
        return bytes(changed)

    connecting, listening = sides()
    with pytest.raises(HandshakeError) as refusal:
        exchange(connecting, listening, damage)
    assert "\n" not in str(refusal.value) and len(str(refusal.value)) < 1000
    assert not connecting.is_done


@given(st.lists(st.binary(max_size=100) | st.sampled_from(exchange(*sides())), max_size=4), st.booleans())
@settings(max_examples=share(100), deadline=None)
def test_random_records_raise_nothing_but_handshake_errors(records, is_connecting):
    side = Handshake("one", ONE, is_connecting=is_connecting)
    with contextlib.suppress(HandshakeError):
        for record in records:
            side.receive(record)
    assert not side.is_done


@pytest.mark.parametrize(
    "change",
    [
        lambda records: [records[0], records[1], records[1]],  # repeated
        lambda records: [records[0], records[2]],  # one left out
        lambda records: [records[1], records[0]],
        lambda records: [records[0][:-1] + bytes([records[0][-1] ^ 1])],
        lambda records: [bytes([records[0][0] ^ 1]) + records[0][1:]],
        lambda records: [records[0][:-1]],
        lambda records: [b""],
    ],
)
@pytest.mark.parametrize("encryption", ["REQUIRED", "DISABLED"])
def test_a_record_that_is_not_the_next_one_is_refused(encryption, change):
    one, other = EndpointLink("one", encryption), EndpointLink("other", encryption)
    acquainted(one, other)
    connecting, listening = sides(one, other)
    exchange(connecting, listening)
    sealed = [connecting.sending.seal(record) for record in RECORDS]
    with pytest.raises(ValueError, match="forged, altered, repeated or out of order"):
        for record in change(sealed):
            listening.receiving.open(record)


def test_a_record_of_another_connection_is_refused():
    connecting, listening = sides()
    exchange(connecting, listening)
    later = sides()
    exchange(*later)
    with pytest.raises(ValueError, match="forged"):
        later[1].receiving.open(connecting.sending.seal(b"stale"))


@pytest.mark.parametrize(
    "one, other, is_encrypted",
    [
        ("DISABLED", "DISABLED", False),
        ("DISABLED", "SUPPORTED", False),
        ("SUPPORTED", "SUPPORTED", True),
        ("SUPPORTED", "REQUIRED", True),
        ("REQUIRED", "REQUIRED", True),
        ("DISABLED", "REQUIRED", None),
    ],
)
def test_the_endpoints_agree_on_encryption(one, other, is_encrypted):
    for encryptions in ((one, other), (other, one)):
        links = [EndpointLink(f"of {each}", each) for each in encryptions]
        acquainted(*links)
        connecting, listening = sides(*links)
        if is_encrypted is None:
            with pytest.raises(HandshakeError, match="There is no compatible encryption algorithm"):
                exchange(connecting, listening)
            continue
        exchange(connecting, listening)
        assert (b"secret" not in connecting.sending.seal(b"a secret body")) == is_encrypted


def test_a_name_from_a_peer_is_quoted_and_cut():
    hello = msgspec.msgpack.decode(Handshake("one", EndpointLink("x"), is_connecting=True).start[0])
    assert quoted("a\nb\x1b[31m") == r"'a\nb\x1b[31m'" and len(quoted("x" * 500)) < 140
    refused = msgspec.msgpack.encode(("refused", "a\nb\x1b[31m"))
    with pytest.raises(HandshakeError, match=r"^a\\nb\\x1b\[31m$"):
        Handshake("other", OTHER, is_connecting=True).receive(refused)
    hello[2] = "x" * 129
    with pytest.raises(HandshakeError, match="no handshake of this version"):
        Handshake("other", OTHER, is_connecting=False).receive(msgspec.msgpack.encode(hello))


def test_the_messages_of_the_handshake_are_small():
    assert max(len(record) for record in exchange(*sides())) < MESSAGE_SIZE_MAX / 10
