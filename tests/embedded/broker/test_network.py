"""Two instances: transmission, acknowledgement, retry, broker-made errors."""

import msgspec
import pytest

from harness.embedded.broker import ddl_databases, ddl_network, ddl_principals, ddl_services, frames, system_objects
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND, SECOND
from tests.embedded.broker.world import LATENCY_NS, C, M, Q, S, bodies, handle_of, kinds

with_and_without_latches = pytest.mark.parametrize("latch_ns", [0, 5 * MILLISECOND])


def test_a_message_crosses_the_network_and_leaves_the_transmission_queue(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"hello")
    [row] = initiator.db.transmission_rows()
    assert (row.endpoint.terms.far_service, row.message_body, row.message_sequence_number) == (S, b"hello", 0)
    world.run_for(0.1)
    assert not initiator.db.transmission_queue and bodies(target.receive()) == [b"hello"]
    assert not [key for key in initiator.store.rows if "xmit" in key[0]]
    assert initiator.engine.counters.enqueued_transmission == initiator.engine.counters.dequeued_transmission == 1


def test_the_first_acknowledgement_names_the_broker_instance(world, pair):
    initiator, target = pair
    initiator.ddl(lambda tx: ddl_network.drop_route(tx, initiator.db.catalog, "to target"))
    initiator.ddl(
        lambda tx: ddl_network.create_route(
            tx, initiator.db.catalog, "any", service_name=S, address=f"TCP://host:{target.port}"
        )
    )
    handle = initiator.begin()
    assert initiator.endpoint(handle).far_broker_instance is None
    initiator.send(handle)
    world.run_for(0.1)
    assert initiator.endpoint(handle).far_broker_instance == target.db.catalog.service_broker_guid


def test_an_unacknowledged_message_is_sent_again_after_4_8_16_32_and_64_seconds(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: []
    initiator.send(world.dialog(initiator, target))
    start = world.network.times_s(frames.MessageFrame)[0] if world.network.sent else world.now_s()
    world.run_for(4 + 8 + 16 + 32 + 64 + 64 + 1)
    times = [round(when - start, 3) for when in world.network.times_s(frames.MessageFrame)]
    assert times == [0, 4, 12, 28, 60, 124, 188]


def test_an_acknowledgement_of_a_part_begins_the_intervals_anew(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: []
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    initiator.send(handle)
    world.run_for(5)
    is_second = lambda frame: isinstance(frame, frames.MessageFrame) and frame.sequence == 1  # noqa: E731
    world.network.deliveries = lambda frame: [] if is_second(frame) else [LATENCY_NS]
    world.run_for(40)
    *_, acknowledged_s = world.network.times_s(frames.AcknowledgementFrame)
    sent_s = [when_ns / 1e9 for when_ns, frame in world.network.sent if is_second(frame)]
    assert [round(when_s - acknowledged_s) for when_s in sent_s if when_s > acknowledged_s] == [4, 12, 28]


def sent_again_after_s(world, send):
    """Send a message that the network loses; return the seconds until it is sent again."""
    world.network.deliveries = lambda frame: []
    del world.network.sent[:]
    send()
    world.run_for(60)
    first, second, *_ = world.network.times_s(frames.MessageFrame)
    return second - first


@pytest.mark.parametrize("latch_ns", [5 * MILLISECOND])
@pytest.mark.parametrize("after_s", [1, 60])
def test_an_acknowledgement_that_comes_as_its_message_is_to_be_sent_again_leaves_no_retry(world, pair, after_s):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    world.network.deliveries = lambda frame: [
        LATENCY_NS
        if isinstance(frame, frames.MessageFrame)
        else world.network.sent[0][0] + 4 * SECOND - 2 * MILLISECOND - world.clock.now_ns
    ]
    initiator.send(handle)
    world.run_for(4.1)
    assert not initiator.db.transmission_queue and len(world.network.times_s(frames.MessageFrame)) == 1
    world.run_for(after_s)
    assert sent_again_after_s(world, lambda: initiator.send(handle)) == pytest.approx(4, abs=0.01)


def test_an_error_that_replaces_unsent_messages_is_retried_although_their_retry_has_passed(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    initiator.ddl(lambda tx: ddl_network.alter_endpoint(tx, initiator.engine.link, "broker", state="STOPPED"))
    initiator.send(handle)
    world.run_for(0.1)
    tx = initiator.engine.transactions.begin()
    initiator.end(handle, tx, error=(5, "stop"))
    initiator.ddl(lambda tx: ddl_network.alter_endpoint(tx, initiator.engine.link, "broker", state="STARTED"))
    world.run_for(10)
    assert sent_again_after_s(world, lambda: initiator.commit(tx)) == pytest.approx(4, abs=0.01)


def test_an_error_takes_the_number_of_the_first_message_that_it_takes_back(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"0")
    world.run_for(1)
    initiator.ddl(lambda tx: ddl_network.alter_endpoint(tx, initiator.engine.link, "broker", state="STOPPED"))
    initiator.send(handle, b"taken back from the transmission queue")
    tx = initiator.engine.transactions.begin()
    initiator.send(handle, b"taken back from its transaction", tx)
    initiator.end(handle, tx, error=(5, "stop"))
    initiator.commit(tx)
    initiator.ddl(lambda tx: ddl_network.alter_endpoint(tx, initiator.engine.link, "broker", state="STARTED"))
    world.run_for(10)
    received = {row.message_sequence_number: row.message_type.name for row in target.receive_all()}
    assert received == {0: M, 1: system_objects.ERROR}


def test_without_a_route_back_a_message_arrives_and_the_target_says_why_it_is_not_acknowledged(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_network.drop_route(tx, target.db.catalog, "to initiator"))
    initiator.send(world.dialog(initiator, target), b"x")
    world.run_for(1)
    assert bodies(target.receive_all()) == [b"x"] and len(initiator.db.transmission_queue) == 1
    [endpoint] = target.db.endpoints.values()
    assert endpoint.outgoing.transmission_status


def test_a_message_is_sent_again_before_one_that_waits_for_a_later_retry(world, pair):
    initiator, target = pair
    old, new = world.dialog(initiator, target), world.dialog(initiator, target)
    world.network.deliveries = lambda frame: []
    initiator.send(old)
    world.run_for(4 + 8 + 16 + 1)  # the next retry of the old one is 31 s away
    assert sent_again_after_s(world, lambda: initiator.send(new)) == pytest.approx(4, abs=0.01)


def test_duplicates_are_dropped_and_acknowledged_again(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: [LATENCY_NS, 2 * LATENCY_NS, 50 * LATENCY_NS]
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"1")
    world.run_for(1)
    assert bodies(target.receive_all()) == [b"1"]
    assert len(world.network.times_s(frames.AcknowledgementFrame)) == 3 and target.engine.counters.dropped == 2


def test_early_messages_wait_for_the_earlier_ones(world, pair):
    initiator, target = pair
    delays = {0: 30, 1: 20, 2: 10}
    world.network.deliveries = lambda frame: (
        [delays[frame.sequence] * LATENCY_NS] if isinstance(frame, frames.MessageFrame) else [LATENCY_NS]
    )
    handle = world.dialog(initiator, target)
    for body in (b"0", b"1", b"2"):
        initiator.send(handle, body)
    world.run_for(0.02)
    [endpoint] = target.db.endpoints.values()
    assert endpoint.state.value == "SI" and target.receive() == []
    early = list(target.db.queue_rows(target.queue))
    assert [(row.status, row.message_body) for row in early] == [(2, b"1"), (2, b"2")]
    assert target.queue.depth == 2 and all(row.message_enqueue_time > 0 for row in early)
    world.run_for(1)
    assert target.queue.depth == 3
    assert bodies(target.receive()) == [b"0", b"1", b"2"] and endpoint.state.value == "CO"


@pytest.mark.parametrize("how", [{}, {"cleanup": True}])
def test_the_end_of_a_conversation_removes_its_early_messages(world, pair, how):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"0")
    world.run_for(0.1)
    [row] = target.receive()
    world.network.deliveries = lambda frame: (
        [] if isinstance(frame, frames.MessageFrame) and frame.sequence == 1 else [LATENCY_NS]
    )
    initiator.send(handle, b"1")
    initiator.send(handle, b"2")
    world.run_for(0.1)
    assert [row.status for row in target.db.queue_rows(target.queue)] == [2]
    target.end(handle_of(row), **how)
    assert target.queue.depth == 0
    world.run_for(100)
    assert target.queue.depth == 0 and not list(target.db.queue_rows(target.queue))


def test_a_batch_of_arrivals_is_one_flush(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    target.receive()

    def send_a_hundred():
        tx = initiator.engine.transactions.begin()
        for _ in range(100):
            yield from initiator.engine.dialogs.send(tx, initiator.db, [handle], M, b"x")
        yield from tx.commit()

    before = target.store.flushes
    initiator.run(send_a_hundred())
    world.run_for(0.1)
    assert len(target.receive()) == 100 and target.store.flushes - before <= 3


def test_messages_flow_both_ways_and_both_sides_end(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"question")
    world.run_for(0.1)
    [row] = target.receive()
    target.send(handle_of(row), b"answer")
    target.end(handle_of(row))
    world.run_for(0.1)
    assert kinds(initiator.receive()) == [M, "EndDialog"]
    assert target.endpoint(handle_of(row)).state.value == "CD"
    initiator.end(handle)
    assert not initiator.db.endpoints
    world.run_for(1801)
    assert not target.db.endpoints


def test_the_acknowledgement_removes_a_fire_and_forget_initiator(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    initiator.end(handle)
    assert initiator.endpoint(handle).state.value == "DO"
    world.run_for(0.1)
    assert not initiator.db.endpoints and kinds(target.receive()) == [M, "EndDialog"]


def test_an_end_with_error_keeps_messages_on_the_wire_and_their_order(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: [] if world.now_s() < 1 else [LATENCY_NS]
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"on the wire")
    world.run_for(0.01)
    initiator.end(handle, error=(5, "stop"))
    world.run_for(10)
    assert sorted(kinds(target.receive_all())) == ["Error", M] and not initiator.db.endpoints


def test_an_ended_conversation_that_the_far_side_never_acknowledges_goes_with_its_lifetime(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: []
    handle = world.dialog(initiator, target, lifetime_s=100)
    initiator.send(handle)
    initiator.end(handle)
    assert initiator.endpoint(handle).state.value == "DO"
    world.run_for(101)
    assert not initiator.db.endpoints and not initiator.db.transmission_queue


# Broker-made errors at the far side


def error_after(world, initiator, target, **options):
    handle = world.dialog(initiator, target, **options)
    initiator.send(handle)
    world.run_for(0.1)
    rows = initiator.receive()
    assert kinds(rows) == ["Error"] and initiator.endpoint(handle).state.value == "ER"
    assert not initiator.db.transmission_queue and not target.db.endpoints
    initiator.end(handle)
    assert not initiator.db.endpoints
    return int(rows[0].message_body.decode("utf-16-le").partition("<Code>")[2].partition("<")[0])


def test_a_service_that_the_named_broker_does_not_have_is_8490(world, pair):
    initiator, target = pair
    initiator.ddl(
        lambda tx: ddl_network.create_route(
            tx,
            initiator.db.catalog,
            "x",
            service_name="nobody",
            broker_instance=target.db.catalog.service_broker_guid,
            address=f"TCP://host:{target.port}",
        )
    )
    assert error_after(world, initiator, target, to_service="nobody") == -8490


def test_a_contract_that_the_target_does_not_know_is_8425(world, pair):
    initiator, target = pair
    initiator.ddl(lambda tx: ddl_services.create_contract(tx, initiator.db.catalog, "own", usages=[(M, "ANY")]))
    assert error_after(world, initiator, target, contract="own") == -8425


def test_a_contract_that_the_service_does_not_have_is_8408(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_services.alter_service(tx, target.db, target.engine.delivery, S, drop_contracts=[C]))
    assert error_after(world, initiator, target) == -8408


def test_a_service_without_send_permission_is_8494(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_services.set_sender(tx, target.db.catalog, S, "public", may=False))
    assert error_after(world, initiator, target) == -8494


def test_a_service_that_is_dropped_is_8470(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    target.ddl(lambda tx: ddl_services.drop_service(tx, target.db, target.engine.severance, S))
    world.run_for(0.1)
    [row] = initiator.receive()
    assert "<Code>-8470</Code>" in row.message_body.decode("utf-16-le")
    assert initiator.endpoint(handle).state.value == "ER"


def test_a_body_where_the_target_expects_none_is_8430(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_services.alter_message_type(tx, target.db.catalog, M, validation="EMPTY"))
    assert error_after(world, initiator, target) == -8430


def test_ill_formed_xml_is_9615_to_its_sender_and_9616_to_the_receiver(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_services.alter_message_type(tx, target.db.catalog, M, validation="WELL_FORMED_XML"))
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"<a>")
    world.run_for(0.1)
    for side, code in ((initiator, -9615), (target, -9616)):
        [error] = side.receive()
        text = error.message_body.decode("utf-16-le")
        assert f"<Code>{code}</Code>" in text and "XML parsing: line 1, character 3, unexpected end of input" in text
        assert "Initiator: 1, and Message sequence number: 0" in text
        assert side.endpoint(handle_of(error)).state.value == "ER"
    assert not initiator.db.transmission_queue


@pytest.mark.parametrize("name, code", [(system_objects.END_DIALOG, -8430), (system_objects.ERROR, -9616)])
def test_the_end_of_a_conversation_is_validated_like_other_messages(world, pair, name, code):
    initiator, target = pair
    initiator.send(world.dialog(initiator, target))
    world.run_for(0.1)
    target.receive()
    [(_, first)] = [each for each in world.network.sent if isinstance(each[1], frames.MessageFrame)]
    end = msgspec.structs.replace(first, sequence=1, message_type=name, body=b"<no end")
    target.engine.on_frames("peer", [end])
    world.run_for(0.1)
    [error] = target.receive()
    assert f"<Code>{code}</Code>" in error.message_body.decode("utf-16-le")


def test_a_message_for_a_dropped_conversation_is_8462(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    [row] = target.receive()
    initiator.end(handle, cleanup=True)
    target.send(handle_of(row))
    world.run_for(0.1)
    [error] = target.receive()
    assert "<Code>-8462</Code>" in error.message_body.decode("utf-16-le")


def test_the_transmission_status_shows_a_missing_service_broker_endpoint(world, pair):
    initiator, target = pair
    initiator.ddl(lambda tx: ddl_network.alter_endpoint(tx, initiator.engine.link, "broker", state="STOPPED"))
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(1)
    assert initiator.db.transmission_status(handle) == "The Service Broker protocol transport is not available."
    initiator.ddl(lambda tx: ddl_network.alter_endpoint(tx, initiator.engine.link, "broker", state="STARTED"))
    world.run_for(0.1)
    assert len(target.receive()) == 1


@with_and_without_latches
def test_a_message_that_comes_while_the_queue_is_off_waits_in_the_receiving_database(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"1")
    world.run_for(0.1)
    target.alter_queue(status=False)
    initiator.send(handle, b"2")
    world.run_for(0.1)
    assert not initiator.db.transmission_queue
    [there] = target.db.endpoints
    for _ in range(2):
        [row] = target.db.transmission_rows()
        here = target.db.catalog.service_broker_guid
        assert (row.message_body, row.sent_by_initiator, row.to_broker_instance) == (b"2", True, here)
        assert row.from_broker_instance == initiator.db.catalog.service_broker_guid
        assert "could not be delivered to the local service" in row.transmission_status
        assert target.db.transmission_status(there) == row.transmission_status
        target.crash()
    target.alter_queue(status=True)
    assert bodies(target.receive()) == [b"1", b"2"] and not list(target.db.transmission_rows())
    assert not target.db.transmission_status(there)


def test_a_message_in_its_flush_when_its_queue_is_turned_on_reaches_the_queue(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    target.alter_queue(status=False)
    initiator.send(handle, b"1")
    initiator.send(handle, b"2")
    assert world.driver.run_until(lambda: target.engine.databases.conversations != {}), (
        "message 1 is on its way to the disk"
    )
    assert not target.queue.blocked
    target.alter_queue(status=True)
    initiator.send(handle, b"3")
    world.run_for(1)
    assert bodies(target.receive_all()) == [b"1", b"2", b"3"]
    assert not target.queue.blocked
    target.crash()
    assert not target.receive_all()


@pytest.mark.parametrize("latch_ns", [5 * MILLISECOND])
def test_a_queue_turned_on_while_a_batch_waits_for_a_latch_keeps_the_order(world, pair):
    initiator, target = pair
    answering, asking = world.dialog(initiator, target), world.dialog(initiator, target)
    initiator.send(answering, b"0")
    world.run_for(0.1)
    [row] = target.receive()
    world.network.deliveries = lambda frame: []
    target.send(handle_of(row), b"answer")
    target.alter_queue(status=False)
    initiator.send(asking, b"1")
    initiator.send(asking, b"2")
    world.run_for(0.1)
    endpoint = target.endpoint(handle_of(row))
    first, second = (frame for _, frame in world.network.sent if getattr(frame, "body", None) in {b"1", b"2"})
    acknowledgement = frames.AcknowledgementFrame(
        endpoint.terms.conversation_id, True, 0, initiator.db.catalog.service_broker_guid
    )
    target.engine.on_frames("peer", [first, acknowledgement, second])
    world.driver.settle()
    target.alter_queue(status=True)  # done before the acknowledgement has its latch
    assert endpoint.outgoing.unacknowledged, "the batch waits for the latch"
    world.run_for(0.1)
    assert bodies(target.receive_all()) == [b"1", b"2"] and not endpoint.outgoing.unacknowledged


@with_and_without_latches
def test_a_queue_turned_on_in_an_open_transaction_keeps_the_order(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    target.alter_queue(status=False)
    initiator.send(handle, b"1")
    world.run_for(1)
    tx = target.engine.transactions.begin()
    ddl_services.alter_queue(tx, target.db.catalog, "dbo", "q", QueueOptions(status=True))
    initiator.send(handle, b"2")
    world.run_for(1)
    target.commit(tx)
    assert bodies(target.receive_all()) == [b"1", b"2"]


@with_and_without_latches
def test_a_crash_right_after_a_queue_was_turned_on_loses_nothing_and_keeps_the_order(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    target.alter_queue(status=False)
    initiator.send(handle, b"1")
    initiator.send(handle, b"2")
    world.run_for(1)
    target.alter_queue(status=True)  # ON is on disk, the move of the messages is not
    target.crash()
    initiator.send(handle, b"3")
    world.run_for(10)
    assert bodies(target.receive_all()) == [b"1", b"2", b"3"]


def test_messages_are_sent_again_as_soon_as_a_broken_connection_is_back(world, pair):
    initiator, target = pair
    address = ("host", target.port)
    world.network.deliveries = lambda frame: []
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.01)
    initiator.engine.on_connection_state(address, False, "connection reset")
    assert "connection reset" in initiator.db.transmission_status(handle)
    world.network.deliveries = lambda frame: [LATENCY_NS]
    initiator.engine.on_connection_state(address, True, "")
    world.run_for(0.1)
    assert len(target.receive()) == 1


# Dialog security: its requirements; `tests/embedded/server/test_dialog_encryption.py` has its cryptography


def test_frames_from_or_for_another_broker_instance_are_refused_and_logged_once_a_minute(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"1")
    world.run_for(0.1)
    target.receive()
    [first] = [frame for _, frame in world.network.sent if isinstance(frame, frames.MessageFrame)]
    [acknowledgement] = [frame for _, frame in world.network.sent if isinstance(frame, frames.AcknowledgementFrame)]
    guid = "0F8FAD5B-D9CB-469F-A165-70867728950E"
    for change in ({"from_broker_instance": guid}, {"to_broker_instance": guid}):
        forged = msgspec.structs.replace(first, sequence=1, header=msgspec.structs.replace(first.header, **change))
        target.engine.on_frames("peer", [forged] * 50)
    world.network.deliveries = lambda frame: []
    initiator.send(handle, b"2")
    forged = msgspec.structs.replace(acknowledgement, sequence=1, broker_instance=guid)
    initiator.engine.on_frames("peer", [forged] * 50)
    world.run_for(1)
    assert target.receive() == [] and len(initiator.db.transmission_queue) == 1
    assert target.engine.counters.corrupted == 100 and len(target.engine.error_log.lines) == 2
    assert initiator.engine.counters.corrupted == 50 and len(initiator.engine.error_log.lines) == 1
    world.run_for(60)
    initiator.engine.on_frames("peer", [forged])
    world.run_for(1)
    assert initiator.engine.error_log.lines[-1].endswith("(49 more of this kind since the last such line)")


def test_an_encrypted_dialog_needs_keys_a_binding_and_send_permission(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_services.set_sender(tx, target.db.catalog, S, "public", may=False))
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle)
    world.run_for(0.1)
    assert "master key" in initiator.db.transmission_status(handle)
    world.secure(initiator, target)
    target.ddl(lambda tx: ddl_services.set_sender(tx, target.db.catalog, S, "proxy", may=True))
    world.run_for(0.2)
    assert len(target.receive()) == 1 and not initiator.db.transmission_queue


def _give_password(principals):
    principals.certificate("own").has_password = True


def _expire(name):
    def spoil(principals):
        principals.certificate(name).expiry_ns = 1

    return spoil


def _postpone(principals):
    principals.certificate("own").start_ns = 2**62


def _deactivate(principals):
    principals.certificate("theirs").is_active_for_begin_dialog = False


def _drop_key(principals):
    principals.certificate("own").private_key = None


def _lock_master_key(principals):
    principals.master_key, principals.locked_master_key = None, b"locked"


def _drop_master_key(principals):
    principals.master_key = None


@pytest.mark.parametrize(
    ("spoil", "status"),
    [
        (_drop_master_key, SqlServerError(28050).text),
        (_lock_master_key, SqlServerError(28054, "initiator", 32).text),
        (_expire("own"), SqlServerError(28025, 1).text),
        (_expire("theirs"), SqlServerError(28025, 5).text),
        (_postpone, SqlServerError(28024, 1).text),
        (_give_password, SqlServerError(9737, 1).text),
        (_drop_key, SqlServerError(9733, 1).text),
        (_deactivate, SqlServerError(9767, 5).text),
    ],
)
def test_what_an_encrypted_dialog_lacks_is_said_in_the_status(world, pair, spoil, status):
    initiator, target = pair
    world.secure(initiator, target)
    spoil(initiator.db.catalog.principals)
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle)
    world.run_for(0.1)
    assert initiator.db.transmission_status(handle) == status


def test_an_endpoint_takes_a_certificate_with_a_key_that_is_valid_now(world, pair):
    _, target = pair
    engine, catalog = target.engine, target.engine.databases["master"].catalog
    target.ddl(lambda tx: ddl_principals.create_master_key(tx, catalog))
    for name, options in (
        ("old", {"expiry_ns": 1, "start_ns": 0}),
        ("locked", {"password": "x"}),
        ("public", {"blob": b"x"}),
    ):
        target.ddl(
            lambda tx, name=name, options=options: ddl_principals.create_certificate(tx, catalog, name, **options)
        )
        with pytest.raises(SqlServerError, match=f"The certificate '{name}' is not valid for endpoint authentication"):
            target.ddl(lambda tx, name=name: ddl_network.alter_endpoint(tx, engine.link, "broker", certificate=name))


def test_a_binding_secures_a_dialog_without_encryption_too(world, pair):
    initiator, target = pair
    world.secure(initiator, target)
    assert initiator.endpoint(world.dialog(initiator, target, encryption=False)).terms.is_encrypted


def test_an_encrypted_dialog_of_an_owner_who_may_not_send_is_8494(world, pair):
    initiator, target = pair
    world.secure(initiator, target)
    target.ddl(lambda tx: ddl_services.set_sender(tx, target.db.catalog, S, "public", may=False))
    assert error_after(world, initiator, target, encryption=True) == -8494


def test_an_error_without_keys_that_answers_no_message_is_refused(world, pair):
    initiator, target = pair
    world.secure(initiator, target)
    handle = world.dialog(initiator, target, encryption=True)
    initiator.send(handle)
    world.run_for(0.1)
    forged = frames.ErrorFrame(initiator.endpoint(handle).terms.conversation_id, False, -8462, "forged")
    initiator.engine.on_frames("peer", [forged])
    world.run_for(0.1)
    assert initiator.endpoint(handle).state.value == "CO" and initiator.receive() == []
    assert "it answers no message" in initiator.engine.error_log.lines[-1]


def test_a_message_with_an_unknown_certificate_is_dropped_without_an_answer(world, pair):
    initiator, target = pair
    world.secure(initiator, target)
    target.ddl(lambda tx: ddl_principals.drop_certificate(tx, target.db.catalog, "theirs"))
    initiator.send(world.dialog(initiator, target, encryption=True))
    world.run_for(1)
    assert target.receive() == [] and initiator.receive() == []
    assert "Undeliverable" in target.engine.error_log.lines[-1] and len(initiator.db.transmission_queue) == 1
    assert target.engine.counters.dropped == 1


def test_a_peer_needs_a_certificate_whose_login_may_connect(world, pair):
    _, target = pair
    engine, catalog = target.engine, target.engine.databases["master"].catalog
    target.ddl(lambda tx: ddl_network.drop_endpoint(tx, engine.link, "broker"))
    target.ddl(lambda tx: ddl_principals.create_master_key(tx, catalog))
    target.ddl(lambda tx: ddl_principals.create_certificate(tx, catalog, "endpoint", subject="target"))
    target.ddl(
        lambda tx: ddl_network.create_endpoint(
            tx, engine.link, "secure", state="STARTED", port=1, authentication="CERTIFICATE", certificate="endpoint"
        )
    )
    blob = b"the initiator's certificate"
    target.ddl(lambda tx: ddl_principals.create_login(tx, engine.logins, "peer", password_hash=b"x"))
    target.ddl(lambda tx: ddl_principals.create_user(tx, catalog, engine.logins, "peer", login="peer"))
    assert "due to the following reason: Certificate not found. State 89." in engine.link.refusal_of(blob)
    assert "There is no compatible authentication protocol. State 21." in engine.link.refusal_of(None)
    target.ddl(lambda tx: ddl_principals.create_certificate(tx, catalog, "peer", owner="peer", blob=blob))
    assert engine.link.refusal_of(blob) == ""
    assert engine.link.refusal_of_owner(blob) == (
        "Connection handshake failed. The login 'peer' does not have CONNECT permission on the endpoint. State 84."
    )
    target.ddl(lambda tx: ddl_network.set_connect(tx, engine.link, "secure", "peer", may=True))
    assert engine.link.refusal_of_owner(blob) == engine.link.own_refusal() == ""
    assert engine.link.presented_certificate() == catalog.principals.certificate("endpoint").blob
    catalog.principals.certificate("peer").expiry_ns = engine.clock.utc_ns()
    assert "following reason: Certificate expired. State 89." in engine.link.refusal_of(blob)
    own = catalog.principals.certificate("endpoint")
    own.start_ns = engine.clock.utc_ns() + 1
    assert "used by this endpoint was not found: Certificate not yet valid." in engine.link.own_refusal()
    own.start_ns, own.has_password = 0, True
    assert "not found: The certificate's private key cannot be found. Use DBCC" in engine.link.own_refusal()
    own.has_password = False
    target.ddl(lambda tx: ddl_network.alter_endpoint(tx, engine.link, "secure", authentication="WINDOWS NEGOTIATE"))
    assert "There is no compatible authentication protocol. State 21." in engine.link.refusal_of(blob)
    target.ddl(lambda tx: ddl_network.alter_endpoint(tx, engine.link, "secure", state="STOPPED"))
    assert "The Service Broker endpoint is not started" in engine.link.refusal_of(blob)


def test_a_master_key_that_protects_a_private_key_is_not_dropped(here):
    catalog = here.db.catalog
    here.ddl(lambda tx: ddl_principals.create_master_key(tx, catalog))
    here.ddl(lambda tx: ddl_principals.create_certificate(tx, catalog, "own", subject="x"))
    with pytest.raises(SqlServerError) as refusal:
        here.ddl(lambda tx: ddl_principals.drop_master_key(tx, catalog))
    assert refusal.value.number == 15580
    here.ddl(lambda tx: ddl_principals.drop_certificate(tx, catalog, "own"))
    here.ddl(lambda tx: ddl_principals.drop_master_key(tx, catalog))
    assert not catalog.principals.has_master_key


def test_a_service_is_found_in_another_database_of_the_instance(world, pair):
    initiator, _ = pair
    other = initiator.ddl(lambda tx: ddl_databases.create_database(tx, initiator.engine.databases, "other"))
    initiator.ddl(lambda tx: ddl_services.create_queue(tx, other.catalog, "dbo", "q", QueueOptions()))
    initiator.ddl(lambda tx: ddl_services.create_message_type(tx, other.catalog, M))
    initiator.ddl(lambda tx: ddl_services.create_contract(tx, other.catalog, C, usages=[(M, "ANY")]))
    initiator.ddl(lambda tx: ddl_services.create_service(tx, other.catalog, "far", queue=Q, contracts=[C]))
    initiator.send(initiator.begin(to_service="far"))
    assert other.catalog.queues[Q].depth == 1
    initiator.ddl(
        lambda tx: ddl_databases.drop_database(tx, initiator.engine.databases, initiator.engine.delivery, "other")
    )
    assert "other" not in initiator.engine.databases
    initiator.crash()
    assert "other" not in initiator.engine.databases


def test_the_transport_encrypts_as_the_endpoint_says(pair):
    initiator, _ = pair
    link = initiator.engine.link
    for encryption in ("REQUIRED", "SUPPORTED"):
        initiator.ddl(lambda tx, to=encryption: ddl_network.alter_endpoint(tx, link, "broker", encryption=to))
        assert link.encryption == encryption
    initiator.ddl(lambda tx: ddl_network.drop_endpoint(tx, link, "broker"))
    assert link.encryption == "DISABLED"
