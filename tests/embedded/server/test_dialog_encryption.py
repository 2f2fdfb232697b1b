"""Encrypted dialogs between instances with real keys, in virtual time."""

import os

import pytest
from cryptography import x509
from msgspec.structs import replace

from harness.embedded.broker import ddl_network, ddl_principals, ddl_services
from harness.embedded.broker.frames import AcknowledgementFrame, ErrorFrame, MessageFrame
from harness.embedded.broker.keys import CertificateText, Protection
from harness.embedded.errors import SqlServerError
from harness.embedded.server.cryptography import ServerKeys
from tests.embedded.broker.frame_fuzzer import FrameFuzzer
from tests.embedded.broker.world import LATENCY_NS, S, World, bodies, handle_of, kinds

SECRET = b"a secret of some length"


def keys():
    return ServerKeys(os.urandom(32))


@pytest.fixture
def world():
    return World(make_keys=keys)


@pytest.fixture
def pair(world):
    initiator, target = world.pair()
    world.secure(initiator, target)
    return initiator, target


def sent(world, kind):
    return [frame for _, frame in world.network.sent if isinstance(frame, kind)]


def test_bodies_cross_the_network_in_both_directions_and_nobody_else_reads_them(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    for body in (SECRET, None):
        initiator.send(handle, body)
    world.run_for(0.1)
    rows = target.receive()
    assert bodies(rows) == [SECRET, None]
    target.send(handle_of(rows[0]), SECRET[::-1])
    world.run_for(0.1)
    assert bodies(initiator.receive()) == [SECRET[::-1]]
    for frame in sent(world, MessageFrame):
        assert frame.body is not None and SECRET not in frame.body and SECRET[::-1] not in frame.body
    assert not initiator.db.transmission_queue and not target.db.transmission_queue


def test_an_anonymous_binding_reaches_only_services_to_which_public_may_send(world, pair):
    initiator, target = pair
    catalog, name = initiator.db.catalog, "binding"
    initiator.ddl(lambda tx: ddl_network.alter_remote_service_binding(tx, catalog, name, user=None, anonymous=True))
    initiator.send(world.dialog(initiator, target, encryption=True), SECRET)
    world.run_for(0.1)
    [row] = target.receive()
    target.send(handle_of(row), SECRET[::-1])
    world.run_for(0.1)
    assert (row.message_body, bodies(initiator.receive())) == (SECRET, [SECRET[::-1]])
    assert all(frame.header.key_exchange.certificate is None for frame in sent(world, MessageFrame)[:1])
    target.ddl(lambda tx: ddl_services.set_sender(tx, target.db.catalog, S, "public", may=False))
    initiator.send(world.dialog(initiator, target, encryption=True), SECRET)
    world.run_for(0.1)
    [error] = initiator.receive()
    assert "<Code>-8494</Code>" in error.message_body.decode("utf-16-le")


def test_only_messages_before_the_first_acknowledgement_offer_keys(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    for _ in range(3):
        initiator.send(handle, SECRET)
        world.run_for(0.1)
    assert [frame.header.key_exchange is not None for frame in sent(world, MessageFrame)] == [True, False, False]


def test_a_dialog_goes_on_after_both_sides_have_started_again(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"1")
    world.run_for(0.1)
    for side in pair:
        side.crash()
    initiator.send(handle, b"2")
    world.run_for(0.1)
    rows = target.receive()
    assert bodies(rows) == [b"1", b"2"]
    target.send(handle_of(rows[0]), b"3")
    target.end(handle_of(rows[0]))
    world.run_for(0.1)
    assert bodies(initiator.receive()) == [b"3", None]
    initiator.end(handle)
    world.run_for(2000)
    for side in pair:
        assert not [place for place in side.store.rows if place[0] == side.db.session_table]


def test_an_initiator_that_lost_its_keys_before_they_were_on_disk_offers_the_same(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: [LATENCY_NS] if isinstance(frame, MessageFrame) else []
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"1")
    world.run_for(0.1)
    del initiator.store.rows[initiator.db.session_table, handle]
    initiator.crash()
    world.network.deliveries = lambda frame: [LATENCY_NS]
    initiator.send(handle, b"2")
    world.run_for(10)
    assert bodies(target.receive()) == [b"1", b"2"] and not initiator.db.transmission_queue


@pytest.mark.parametrize(
    "change",
    [
        {"body": b"x" * 60},
        {"body": None},
        {"message_type": "DEFAULT"},
        {"sequence": 2},
        {"priority": 6},
        {"first_is_acknowledged": False},
    ],
)
def test_an_altered_or_forged_message_is_refused_and_the_right_one_arrives(world, pair, change):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"0")
    world.run_for(0.1)
    world.network.deliveries = lambda frame: []
    initiator.send(handle, SECRET)
    world.run_for(0.1)
    frame = sent(world, MessageFrame)[-1]
    target.engine.on_frames("peer", [replace(frame, **change)])
    world.run_for(1)
    assert bodies(target.receive()) == [b"0"]
    assert target.engine.counters.corrupted == 1
    assert "it was not sealed by the far side of the dialog, or was altered" in target.engine.error_log.lines[-1]
    world.network.deliveries = lambda frame: [LATENCY_NS]
    world.run_for(10)
    assert bodies(target.receive()) == [SECRET]


def test_a_message_of_an_encrypted_dialog_does_not_pass_without_encryption(world, pair):
    initiator, target = pair
    initiator.send(world.dialog(initiator, target, encryption=True), b"0")
    world.run_for(0.1)
    target.receive()
    [frame] = sent(world, MessageFrame)
    plain = replace(frame, sequence=1, body=b"forged", header=replace(frame.header, is_encrypted=False))
    target.engine.on_frames("peer", [plain])
    world.run_for(1)
    assert target.receive() == [] and "not encrypted as its dialog is" in target.engine.error_log.lines[-1]


def test_forged_acknowledgements_and_errors_are_refused(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"0")
    world.run_for(0.1)
    world.network.deliveries = lambda frame: []
    initiator.send(handle, b"1")
    [true] = sent(world, AcknowledgementFrame)
    error = ErrorFrame(true.conversation_id, False, -8494, "forged")
    for frame in (
        replace(true, sequence=1),
        replace(true, sequence=1, seal=None),
        error,
        replace(error, seal=true.seal),
    ):
        initiator.engine.on_frames("peer", [frame])
    world.run_for(1)
    assert len(initiator.db.transmission_queue) == 1 and initiator.endpoint(handle).state.value == "CO"
    assert initiator.engine.counters.corrupted == 4


def test_that_a_conversation_is_gone_is_believed_only_as_an_answer_to_a_message(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"0")
    world.run_for(0.1)
    [true] = sent(world, AcknowledgementFrame)
    gone = ErrorFrame(true.conversation_id, False, -8462, "gone")
    initiator.engine.on_frames("peer", [gone])
    world.network.deliveries = lambda frame: []
    initiator.send(handle, b"1")
    initiator.engine.on_frames("peer", [replace(gone, seal=true.seal)])
    world.run_for(1)
    assert initiator.endpoint(handle).state.value == "CO" and initiator.engine.counters.corrupted == 2
    initiator.engine.on_frames("peer", [gone])
    world.run_for(1)
    assert initiator.endpoint(handle).state.value == "ER"


def test_an_error_of_the_target_is_believed(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"0")
    world.run_for(0.1)
    [row] = target.receive()
    target.end(handle_of(row), cleanup=True)
    initiator.send(handle, b"1")
    world.run_for(1)
    assert kinds(initiator.receive()) == ["Error"] and initiator.endpoint(handle).state.value == "ER"


def test_keys_that_were_not_signed_by_the_sender_are_refused(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: []
    initiator.send(world.dialog(initiator, target, encryption=True), b"0")
    world.run_for(0.1)
    frame = sent(world, MessageFrame)[0]
    exchange = frame.header.key_exchange
    for forged in (
        replace(exchange, signature=b""),
        replace(exchange, public_key=exchange.public_key[:1] + exchange.public_key[1:][::-1]),
        replace(exchange, recipient=bytes(32)),
        replace(exchange, certificate=target.db.catalog.principals.certificate("own").blob),
        None,
    ):
        target.engine.on_frames("peer", [replace(frame, header=replace(frame.header, key_exchange=forged))])
        world.run_for(0.1)
        assert not target.db.endpoints and "Undeliverable" in target.engine.error_log.lines[-1]
    # The keys of one dialog do not fit another.
    other = replace(frame, conversation_id="0" * 8 + frame.conversation_id[8:])
    target.engine.on_frames("peer", [other])
    world.run_for(0.1)
    assert not target.db.endpoints and target.engine.counters.dropped == 6


def test_without_the_key_of_the_server_an_encrypted_dialog_waits_and_says_why(world, pair):
    initiator, target = pair
    initiator.keys = keys()  # the file is not the one with which the data was made
    initiator.crash()
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle, b"0")
    world.run_for(1)
    assert len(initiator.db.transmission_queue) == 1
    assert "needs to access the master key in the database" in initiator.db.transmission_status(handle)
    assert "Error code:32." in initiator.db.transmission_status(handle)


def test_a_certificate_is_one_of_x509_with_the_dates_and_the_subject_that_were_asked_for(world, pair):
    initiator, target = pair
    own = initiator.db.catalog.principals.certificate("own")
    theirs = target.db.catalog.principals.certificate("theirs")
    certificate = x509.load_der_x509_certificate(own.blob)
    certificate.verify_directly_issued_by(certificate)
    assert certificate.subject.rfc4514_string() == "CN=initiator"
    assert (theirs.subject, theirs.expiry_ns) == ("initiator", own.expiry_ns) and theirs.private_key is None
    assert own.private_key not in own.blob and own.blob not in own.private_key


@pytest.mark.parametrize("options", [{"blob": b"no certificate"}, {"blob": None, "start_ns": 10**18, "expiry_ns": 1}])
def test_what_is_no_certificate_is_15297(world, pair, options):
    initiator, _ = pair
    with pytest.raises(SqlServerError) as refusal:
        initiator.ddl(lambda tx: ddl_principals.create_certificate(tx, initiator.db.catalog, "bad", **options))
    assert refusal.value.number == 15297


def test_what_a_key_of_a_server_protects_another_cannot_open():
    one = keys()
    master_key = one.new_master_key()
    text = CertificateText("x", 0, 10**18)
    pair = one.new_certificate(text, Protection(master_key))
    one.verify(pair.blob, one.sign(pair.private_key, Protection(master_key), b"data"), b"data")
    with pytest.raises(ValueError, match="service master key"):
        keys().sign(pair.private_key, Protection(master_key), b"data")


def test_brokers_survive_the_frames_of_a_hostile_peer_of_encrypted_dialogs():
    outcome = FrameFuzzer(1, make_keys=keys).run(40)
    assert outcome.refused > 20 and outcome.taken > 20
