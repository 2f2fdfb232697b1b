"""What becomes of a message at an endpoint that is gone, closed or failed, and which counters it changes."""

import pytest

from harness.embedded.broker import ddl_databases, ddl_principals, ddl_services
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.frames import ErrorFrame, MessageFrame
from harness.embedded.errors import SqlServerError
from tests.embedded.broker.world import LATENCY_NS, C, M, Q, S, bodies, handle_of, kinds

_ON, _OFF = QueueOptions(status=True), QueueOptions(status=False)


def code_of(row):
    return int(row.message_body.decode("utf-16-le").partition("<Code>")[2].partition("<")[0])


def service_on_a_queue_of_its_own(instance):
    instance.ddl(lambda tx: ddl_services.create_queue(tx, instance.db.catalog, "dbo", "other", _ON))
    instance.ddl(lambda tx: ddl_services.create_service(tx, instance.db.catalog, "T", queue="dbo.other", contracts=[C]))


def switch_other_queue(instance, options):
    instance.ddl(lambda tx: ddl_services.alter_queue(tx, instance.db.catalog, "dbo", "other", options))


def test_the_end_for_a_conversation_that_is_gone_is_taken_and_nothing_else_is(here):
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    here.end(handle_of(row), cleanup=True)
    here.end(handle)
    assert not here.db.endpoints and not here.db.transmission_queue
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    here.end(handle_of(row), cleanup=True)
    here.send(handle)
    [error] = here.receive()
    assert code_of(error) == -8462 and list(here.db.endpoints) == [handle]


def test_a_message_that_reaches_a_closed_target_is_an_error(world, here):
    service_on_a_queue_of_its_own(here)
    handle = here.begin(to_service="T")
    here.send(handle)
    [row] = here.receive(queue="dbo.other")
    switch_other_queue(here, _OFF)
    here.send(handle, b"late")
    here.end(handle_of(row))
    switch_other_queue(here, _ON)
    world.run_for(0.1)
    rows = here.receive_all()
    assert sorted(kinds(rows)) == ["EndDialog", "Error"] and here.receive(queue="dbo.other") == []
    assert [code_of(row) for row in rows if kinds([row]) == ["Error"]] == [-8462]
    assert here.endpoint(handle).state.value == "ER" and here.endpoint(handle_of(row)).state.value == "CD"


def test_the_end_that_reaches_a_closed_target_is_taken(world, here):
    service_on_a_queue_of_its_own(here)
    handle = here.begin(to_service="T")
    here.send(handle)
    [row] = here.receive(queue="dbo.other")
    switch_other_queue(here, _OFF)
    here.end(handle)
    here.end(handle_of(row))
    switch_other_queue(here, _ON)
    world.run_for(0.1)
    assert not here.db.transmission_queue and handle not in here.db.endpoints
    assert here.endpoint(handle_of(row)).state.value == "CD" and here.receive_all() == []


def test_a_message_from_the_network_that_reaches_a_closed_target_is_an_error(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    [row] = target.receive()
    world.network.deliveries = lambda frame: [10 * LATENCY_NS] if isinstance(frame, MessageFrame) else [LATENCY_NS]
    target.end(handle_of(row))
    world.run_for(0.008)
    initiator.send(handle, b"late")
    world.network.deliveries = lambda frame: (
        [100 * LATENCY_NS] if isinstance(frame, MessageFrame) and frame.from_initiator else [LATENCY_NS]
    )
    world.run_for(1)
    assert target.endpoint(handle_of(row)).state.value == "CD"
    rows = initiator.receive_all()
    assert sorted(kinds(rows)) == ["EndDialog", "Error"] and target.receive() == []
    assert target.engine.counters.dropped == 1


def database_with_service_far(here):
    other = here.ddl(lambda tx: ddl_databases.create_database(tx, here.engine.databases, "other"))
    here.ddl(lambda tx: ddl_services.create_queue(tx, other.catalog, "dbo", "q", QueueOptions()))
    here.ddl(lambda tx: ddl_services.create_message_type(tx, other.catalog, M))
    here.ddl(lambda tx: ddl_services.create_contract(tx, other.catalog, C, usages=[(M, "ANY")]))
    here.ddl(lambda tx: ddl_services.create_service(tx, other.catalog, "far", queue=Q, contracts=[C]))
    return other


def test_an_encrypted_message_waits_until_both_databases_have_a_master_key(world, here):
    other = database_with_service_far(here)
    handle = here.begin(to_service="far", encryption=True)
    here.send(handle)
    world.run_for(1)
    assert not other.endpoints and "master key" in here.db.transmission_status(handle)
    for database in (here.db, other):
        assert not other.endpoints
        here.ddl(lambda tx, database=database: ddl_principals.create_master_key(tx, database.catalog))
    world.run_for(10)
    assert other.catalog.queues[Q].depth == 1 and not here.db.transmission_queue


def test_a_refused_message_leaves_the_target_as_it_is(here):
    other = database_with_service_far(here)
    handle = here.begin(to_service="far")
    here.send(handle, b"1")
    here.ddl(lambda tx: ddl_services.alter_message_type(tx, other.catalog, M, validation="EMPTY"))
    here.send(handle, b"2")
    [error] = here.receive()
    assert code_of(error) == -8430 and here.endpoint(handle).state.value == "ER"
    [receiver] = other.endpoints.values()
    assert receiver.state.value == "CO" and bodies(other.catalog.queues[Q].rows.values()) == [b"1"]


def test_a_target_refuses_what_only_it_may_send(world, pair):
    initiator, target = pair
    for side, sender in ((initiator, "INITIATOR"), (target, "TARGET")):
        side.ddl(lambda tx, side=side: ddl_services.create_message_type(tx, side.db.catalog, "odd"))
        side.ddl(
            lambda tx, side=side, sender=sender: ddl_services.create_contract(
                tx, side.db.catalog, "two", usages=[("odd", sender), (M, "ANY")]
            )
        )
        side.ddl(
            lambda tx, side=side: ddl_services.alter_service(
                tx, side.db, side.engine.delivery, "S", add_contracts=["two"]
            )
        )
    handle = world.dialog(initiator, target, contract="two")
    initiator.send(handle, type_="odd")
    world.run_for(0.1)
    [error] = initiator.receive()
    assert code_of(error) == -8457 and target.receive() == [] and target.engine.counters.dropped == 1


def test_an_error_frame_that_comes_twice_is_one_message(world, pair):
    initiator, target = pair
    target.ddl(lambda tx: ddl_services.set_sender(tx, target.db.catalog, "S", "public", may=False))
    world.network.deliveries = lambda frame: (
        [LATENCY_NS, 20 * LATENCY_NS] if isinstance(frame, ErrorFrame) else [LATENCY_NS]
    )
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(1)
    assert kinds(initiator.receive_all()) == ["Error"] and initiator.endpoint(handle).state.value == "ER"


def test_a_first_message_that_does_not_reach_the_disk_makes_no_target(here):
    handle = here.begin()
    here.store.is_full = True
    with pytest.raises(SqlServerError, match="full"):
        here.send(handle)
    assert list(here.db.endpoints) == [handle] and len(here.db.groups) == 1
    assert here.endpoint(handle).far_broker_instance is None


def test_fire_and_forget_over_the_network_leaves_a_closed_target_without_a_time_of_removal(world, pair):
    initiator, target = pair
    tx = initiator.engine.transactions.begin()
    handle = initiator.begin(tx, to_broker_instance=target.db.catalog.service_broker_guid)
    initiator.send(handle, tx=tx)
    initiator.end(handle, tx)
    initiator.commit(tx)
    world.run_for(0.1)
    row, _ = target.receive_all()
    target.end(handle_of(row))
    assert target.endpoint(handle_of(row)).security_timestamp is None
    world.run_for(3600)
    assert handle_of(row) in target.db.endpoints


def test_a_crash_of_the_initiator_forgets_no_answer(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    [row] = target.receive()
    target.send(handle_of(row), b"1")
    world.run_for(0.1)
    initiator.crash()
    assert initiator.endpoint(handle).receive_sequence == 1
    target.send(handle_of(row), b"2")
    world.run_for(10)
    assert bodies(initiator.receive()) == [b"1", b"2"] and not target.db.transmission_queue


@pytest.mark.parametrize("is_known, code", [(True, -8498), (False, -8428)])
def test_a_type_outside_the_targets_contract_is_refused_as_known_or_unknown(world, pair, is_known, code):
    initiator, target = pair

    def prepare(tx, instance, usages):
        catalog = instance.db.catalog
        if instance is initiator or is_known:
            ddl_services.create_message_type(tx, catalog, "other", validation="NONE")
        ddl_services.create_contract(tx, catalog, "both", usages=usages)
        ddl_services.alter_service(tx, instance.db, instance.engine.delivery, S, add_contracts=["both"])

    initiator.ddl(lambda tx: prepare(tx, initiator, [(M, "ANY"), ("other", "ANY")]))
    target.ddl(lambda tx: prepare(tx, target, [(M, "ANY")]))
    handle = world.dialog(initiator, target, contract="both")
    initiator.send(handle, type_="other")
    world.run_for(0.1)
    [error] = initiator.receive()
    assert code_of(error) == code and target.receive() == []


def test_a_service_does_not_get_a_contract_twice(here):
    with pytest.raises(SqlServerError) as refusal:
        here.ddl(lambda tx: ddl_services.alter_service(tx, here.db, here.engine.delivery, S, add_contracts=[C]))
    assert refusal.value.number == 8404


def test_rows_of_a_queue_get_new_places_after_a_crash(here):
    for body in (b"1", b"2"):
        here.send(here.begin(to_service=S), body)
        here.crash()
    assert sorted(bodies(here.receive_all())) == [b"1", b"2"]


def test_counters_count_each_message_once(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    initiator.send(handle)
    world.run_for(0.1)
    counters = target.engine.counters
    assert (counters.enqueued_transport, counters.enqueued, counters.dropped) == (2, 2, 0)
    assert counters.enqueued_by_priority[5] == 2
    [frame] = [frame for _, frame in world.network.sent if isinstance(frame, MessageFrame) and frame.sequence == 1]
    target.arrive_at(world.clock.now_ns, frame)  # a duplicate
    target.receive()
    world.run_for(0.1)
    assert (counters.enqueued_transport, counters.dropped, counters.receives) == (3, 1, 1)


def test_a_message_for_an_initiator_that_has_ended_counts_as_dropped(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    [row] = target.receive()
    world.network.deliveries = lambda frame: (
        [] if isinstance(frame, MessageFrame) and frame.from_initiator else [LATENCY_NS]
    )
    initiator.end(handle)
    target.send(handle_of(row), b"too late")
    world.run_for(0.1)
    assert initiator.receive() == [] and not target.db.transmission_queue
    assert initiator.endpoint(handle).state.value == "DO" and initiator.engine.counters.dropped == 1


def test_messages_that_waited_for_a_local_queue_are_counted_once(world, here):
    service_on_a_queue_of_its_own(here)
    switch_other_queue(here, _OFF)
    handle = here.begin(to_service="T")
    here.send(handle)
    here.send(handle)
    switch_other_queue(here, _ON)
    world.run_for(0.1)
    counters = here.engine.counters
    assert counters.enqueued_transmission == counters.dequeued_transmission == counters.enqueued_local == 2


def test_a_cleanup_rolled_back_while_a_message_that_waited_is_delivered_does_not_send_it_again(world, here):
    handle = here.begin()
    here.alter_queue(status=False)
    here.send(handle, b"waits")
    here.alter_queue(status=True)  # wakes its delivery, whose flush takes some time
    tx = here.engine.transactions.begin()
    here.end(handle, tx, cleanup=True)
    world.run_for(1)
    tx.rollback()
    world.run_for(100)
    assert [row.message_body for row in here.receive_all()] == [b"waits"]
    assert not here.db.transmission_queue and not here.endpoint(handle).outgoing.unacknowledged
    here.send(handle, b"next")
    assert [row.message_body for row in here.receive_all()] == [b"next"]


def test_an_error_that_comes_while_a_message_is_on_its_way_to_the_disk_drops_the_message(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(0.1)
    conversation = initiator.endpoint(handle).terms.conversation_id
    initiator.spawn(
        initiator.autocommit(lambda tx: initiator.engine.dialogs.send(tx, initiator.db, [handle], M, b"late"))
    )
    initiator.arrive_at(world.clock.now_ns, ErrorFrame(conversation, False, -8462, "gone"))
    world.run_for(1)
    assert initiator.endpoint(handle).state.value == "ER" and not initiator.db.transmission_queue
    assert not [key for key in initiator.store.rows if "xmit" in key[0]]


def test_a_message_that_did_not_reach_the_disk_leaves_the_way_to_a_local_queue_free(here):
    service_on_a_queue_of_its_own(here)
    handle = here.begin(to_service="T")
    switch_other_queue(here, _OFF)
    here.store.is_full = True
    with pytest.raises(SqlServerError, match="full"):
        here.send(handle)
    here.store.is_full = False
    switch_other_queue(here, _ON)
    here.send(handle, b"1")
    assert here.engine.counters.enqueued_transmission == 0 and bodies(here.receive(queue="dbo.other")) == [b"1"]


def test_a_message_that_waited_and_did_not_reach_the_disk_is_tried_again_with_the_next_change(world, here):
    service_on_a_queue_of_its_own(here)
    switch_other_queue(here, _OFF)
    here.send(here.begin(to_service="T"), b"1")
    world.run_for(10)  # the next retry is seconds away
    switch_other_queue(here, _ON)
    here.store.is_full = True  # from after the change's commit on
    world.run_for(0.1)
    here.store.is_full = False
    switch_other_queue(here, _ON)
    world.run_for(0.1)
    assert bodies(here.receive(queue="dbo.other")) == [b"1"]


def test_a_timer_whose_message_does_not_reach_the_disk_comes_when_there_is_room_again(world, here):
    handle = here.begin()
    here.run(here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 1)))
    here.store.is_full = True
    world.run_for(5)
    [line] = here.engine.error_log.lines
    assert here.receive() == [] and "'master' is full" in line and "The operating system says: " in line
    here.store.is_full = False
    world.run_for(2)
    assert kinds(here.receive()) == ["DialogTimer"]


def test_an_end_whose_acknowledgement_does_not_reach_the_disk_is_acknowledged_again(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle)
    world.run_for(1)
    initiator.end(handle)
    initiator.store.is_full = True  # from after its commit on
    world.run_for(3)
    assert initiator.endpoint(handle).state.value == "DO" and len(initiator.db.transmission_queue) == 1
    initiator.crash()
    world.run_for(10)
    assert handle not in initiator.db.endpoints and not initiator.db.transmission_queue


def test_a_timer_waits_for_the_lock_of_its_conversation(world, here):
    handle = here.begin()
    here.run(here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 1)))
    tx = here.engine.transactions.begin()
    here.send(handle, tx=tx)
    world.run_for(5)
    assert here.queue.depth == 0
    tx.rollback()
    world.run_for(1)
    assert kinds(here.receive()) == ["DialogTimer"]
