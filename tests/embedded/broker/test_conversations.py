"""Conversations inside one instance: verbs, states, errors."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.broker import ddl_databases, ddl_network, ddl_services, system_objects
from harness.embedded.broker.database import FIRST_PAGE
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.errors import SqlServerError
from tests.embedded.broker.world import C, M, Q, S, World, bodies, handle_of, kinds

_ON, _OFF = QueueOptions(status=True), QueueOptions(status=False)


def error_number(call, *args, **kwargs):
    with pytest.raises(SqlServerError) as caught:
        call(*args, **kwargs)
    return caught.value.number


def state(instance, handle):
    return instance.endpoint(handle).state.value


def target_of(instance, handle):
    """The other end of a conversation inside one instance."""
    endpoint = instance.endpoint(handle)
    return instance.engine.databases.conversations[endpoint.terms.conversation_id, not endpoint.terms.is_initiator]


def test_a_message_goes_straight_into_the_queue_of_a_local_service(here):
    handle = here.begin()
    assert state(here, handle) == "SO"
    here.send(handle, b"hello")
    assert state(here, handle) == "CO" and not here.db.transmission_queue
    [row] = here.receive()
    assert (row.message_body, row.message_type.name, row.message_sequence_number) == (b"hello", M, 0)
    assert (row.incoming.terms.service_name, row.incoming.terms.contract.name, row.status) == (S, C, 1)
    assert handle_of(row) != handle and row.incoming.group is not here.endpoint(handle).incoming.group
    assert here.engine.counters.enqueued_local == 1 and here.engine.counters.enqueued_transmission == 0


def test_nothing_leaves_before_commit_and_nothing_after_rollback(here):
    handle = here.begin()
    tx = here.engine.transactions.begin()
    here.send(handle, tx=tx)
    assert here.receive() == []
    tx.rollback()
    assert here.receive() == [] and state(here, handle) == "SO" and here.endpoint(handle).send_sequence == 0
    here.send(handle, b"again")
    assert bodies(here.receive()) == [b"again"]


def test_handles_come_in_ascending_order_and_fill_pages_of_144(here):
    handles = [here.begin() for _ in range(290)]
    assert handles == sorted(handles)
    pages = [here.endpoint(handle).page.page_id for handle in handles]
    assert pages == [FIRST_PAGE + ordinal // 144 for ordinal in range(290)]


@pytest.mark.parametrize(
    "number, options",
    [
        (8423, {"from_service": "unknown"}),
        (8425, {"contract": "unknown"}),
        (8411, {"lifetime_s": 0}),
        (8426, {"related_conversation": "5F5D4F34-0000-0000-0000-000000000000"}),
    ],
)
def test_begin_dialog_fails_for_invalid_arguments(here, number, options):
    assert error_number(here.begin, **options) == number


def test_send_fails_for_a_message_type_outside_the_contract(here):
    here.ddl(lambda tx: ddl_services.create_message_type(tx, here.db.catalog, "other"))
    handle = here.begin()
    assert error_number(here.send, handle, type_="unknown") == 8428
    assert error_number(here.send, handle, type_="other") == 8431
    assert error_number(here.send, "5F5D4F34-0000-0000-0000-000000000000") == 8426


def test_send_obeys_the_direction_in_the_contract(here):
    here.ddl(lambda tx: ddl_services.create_message_type(tx, here.db.catalog, "answer"))
    here.ddl(
        lambda tx: ddl_services.create_contract(
            tx, here.db.catalog, "two", usages=[(M, "INITIATOR"), ("answer", "TARGET")]
        )
    )
    here.ddl(lambda tx: ddl_services.alter_service(tx, here.db, here.engine.delivery, S, add_contracts=["two"]))
    handle = here.begin(contract="two")
    assert error_number(here.send, handle, type_="answer") == 8432
    here.send(handle)
    [row] = here.receive()
    assert error_number(here.send, handle_of(row), type_=M) == 8434
    here.send(handle_of(row), type_="answer")
    assert kinds(here.receive()) == ["answer"]


def test_send_to_several_conversations_is_all_or_nothing(here):
    one, two = here.begin(), here.begin()

    def send(*handles):
        return here.run(here.autocommit(lambda tx: here.engine.dialogs.send(tx, here.db, handles, M, b"x")))

    assert error_number(send, one, one) == 8451
    assert error_number(send, one, "5F5D4F34-0000-0000-0000-000000000000") == 8435
    here.end(two)
    assert here.receive() == []
    three = here.begin()
    send(one, three)
    assert len(here.receive_all()) == 2


def test_the_target_ends_first_and_stays_closed_for_half_an_hour(world, here):
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    target = handle_of(row)
    here.end(target)
    assert (state(here, handle), state(here, target)) == ("DI", "CD")
    [end] = here.receive()
    assert end.message_type.name == "http://schemas.microsoft.com/SQL/ServiceBroker/EndDialog"
    assert (end.message_body, end.message_type.validation, end.message_sequence_number) == (None, "E", 0)
    assert error_number(here.send, handle) == 8429
    here.end(handle)
    assert handle not in here.db.endpoints and state(here, target) == "CD"
    world.run_for(29 * 60)
    assert target in here.db.endpoints
    world.run_for(2 * 60)
    assert target not in here.db.endpoints and not here.db.groups


def test_fire_and_forget_leaves_a_closed_target_without_removal_time(world, here):
    tx = here.engine.transactions.begin()
    handle = here.begin(tx)
    here.send(handle, tx=tx)
    here.end(handle, tx)
    here.commit(tx)
    assert handle not in here.db.endpoints
    rows = here.receive_all()
    assert kinds(rows) == [M, "EndDialog"]
    target = handle_of(rows[0])
    here.end(target)
    world.run_for(24 * 3600)
    assert state(here, target) == "CD" and here.endpoint(target).security_timestamp is None


def test_an_end_without_a_send_sends_nothing(here):
    handle = here.begin()
    here.end(handle)
    assert handle not in here.db.endpoints and here.receive() == []


def test_end_with_error_reaches_the_far_side_as_xml(here):
    handle = here.begin()
    here.send(handle)
    here.receive()
    here.end(handle, error=(77, "no <more>"))
    [row] = here.receive()
    assert (
        row.message_type.name == "http://schemas.microsoft.com/SQL/ServiceBroker/Error"
        and row.message_type.validation == "X"
    )
    assert row.message_body.decode("utf-16-le") == (
        '\ufeff<?xml version="1.0"?><Error xmlns="http://schemas.microsoft.com/SQL/ServiceBroker/Error">'
        "<Code>77</Code><Description>no &lt;more&gt;</Description></Error>"
    )
    assert state(here, handle_of(row)) == "ER" and handle not in here.db.endpoints
    assert error_number(here.send, handle_of(row)) == 8429
    here.end(handle_of(row))


def test_end_with_error_drops_unsent_messages(here):
    handle = here.begin()
    here.send(handle, b"kept")
    tx = here.engine.transactions.begin()
    here.send(handle, b"dropped", tx)
    here.end(handle, tx, error=(1, "enough"))
    here.commit(tx)
    assert kinds(here.receive_all()) == ["Error", M]  # an Error precedes the other messages of its dialog


def test_end_discards_the_messages_of_the_conversation(here):
    handle = here.begin()
    for body in (b"1", b"2", b"3"):
        here.send(handle, body)
    [row] = here.receive(top=1)
    here.end(handle_of(row))
    assert kinds(here.receive_all()) == ["EndDialog"] and here.queue.depth == 0


def test_a_rolled_back_end_changes_nothing(here):
    handle = here.begin()
    here.send(handle, b"1")
    target = target_of(here, handle).terms.conversation_handle
    tx = here.engine.transactions.begin()
    here.end(target, tx)
    here.send(handle, b"2")  # waits, because the end may still be rolled back
    tx.rollback()
    here.world.run_for(1)
    assert state(here, target) == "CO" and bodies(here.receive_all()) == [b"1", b"2"]


def test_end_with_cleanup_sends_nothing(here):
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    here.end(handle, cleanup=True)
    assert handle not in here.db.endpoints and here.receive() == []
    assert state(here, handle_of(row)) == "CO"
    here.send(handle_of(row))
    [error] = here.receive()
    assert b"-\x008\x004\x006\x002" in error.message_body and state(here, handle_of(row)) == "ER"


def test_a_second_end_of_a_conversation_fails(pair):
    initiator, target = pair
    initiator.world.network.deliveries = lambda frame: []
    handle = initiator.world.dialog(initiator, target)
    initiator.send(handle)
    initiator.end(handle)
    assert state(initiator, handle) == "DO"
    assert error_number(initiator.end, handle) == 8427


@pytest.mark.parametrize(
    "validation, body, accepted",
    [
        ("EMPTY", None, True),
        ("EMPTY", b"x", False),
        ("WELL_FORMED_XML", b"<a/>", True),
        ("WELL_FORMED_XML", b"<a/>text<b/>", True),
        ("WELL_FORMED_XML", None, True),
        ("WELL_FORMED_XML", "<a>\u00e4</a>".encode("utf-16-le"), True),
        ("NONE", b"\x00", True),
    ],
)
def test_a_body_is_validated_by_its_message_type(here, validation, body, accepted):
    here.ddl(lambda tx: ddl_services.alter_message_type(tx, here.db.catalog, M, validation=validation))
    handle = here.begin()
    if accepted:
        here.send(handle, body)
        assert bodies(here.receive()) == [body]
    else:
        assert error_number(here.send, handle, body) == 8430


@pytest.mark.parametrize("body", [b"<a>", b"<a/></a>", "<a>\u00e4".encode("utf-16-le")])
def test_ill_formed_xml_is_sent_and_answered_by_an_error(here, body):
    here.ddl(lambda tx: ddl_services.alter_message_type(tx, here.db.catalog, M, validation="WELL_FORMED_XML"))
    handle = here.begin()
    here.send(handle, body)
    errors = {handle_of(error): error.message_body.decode("utf-16-le") for error in here.receive_all()}
    assert "<Code>-9615</Code>" in errors.pop(handle)
    [at_receiver] = errors.values()
    assert "<Code>-9616</Code>" in at_receiver and f"of type '{M}'" in at_receiver


# Unknown services, brokers and contracts inside one instance


def test_a_message_for_an_unknown_service_without_a_guid_keeps_waiting(world, here):
    handle = here.begin(to_service="nobody")
    here.send(handle)
    world.run_for(600)
    assert here.db.transmission_status(handle).startswith("The target service name could not be found.")
    [row] = here.db.transmission_rows()
    assert (row.endpoint.terms.far_service, row.message_body, row.message_type_name) == ("nobody", b"x", M)
    assert here.receive() == []


def test_an_unknown_service_of_a_known_broker_is_an_error(here):
    handle = here.begin(to_service="nobody", to_broker_instance="CURRENT DATABASE")
    here.send(handle)
    [row] = here.receive()
    assert handle_of(row) == handle and "<Code>-8490</Code>" in row.message_body.decode("utf-16-le")
    assert state(here, handle) == "ER" and not here.db.transmission_queue


def test_a_message_for_an_unknown_broker_instance_is_delayed(here):
    handle = here.begin(to_broker_instance="AAAAAAAA-0000-0000-0000-000000000000")
    here.send(handle)
    here.world.run_for(1)
    assert len(here.db.transmission_queue) == 1 and here.db.transmission_status(handle)


def test_a_contract_the_service_does_not_have_is_an_error(here):
    here.ddl(lambda tx: ddl_services.alter_service(tx, here.db, here.engine.delivery, S, drop_contracts=[C]))
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    assert "<Code>-8408</Code>" in row.message_body.decode("utf-16-le")
    assert len(here.db.endpoints) == 1


def test_a_disabled_target_queue_holds_messages_at_the_sender(world, here):
    here.ddl(lambda tx: ddl_services.create_queue(tx, here.db.catalog, "dbo", "other", _ON))
    here.ddl(lambda tx: ddl_services.create_service(tx, here.db.catalog, "T", queue="dbo.other", contracts=[C]))
    here.ddl(lambda tx: ddl_services.alter_queue(tx, here.db.catalog, "dbo", "other", _OFF))
    handle = here.begin(to_service="T")
    here.send(handle, b"1")
    here.send(handle, b"2")
    assert len(here.db.transmission_queue) == 2
    assert error_number(here.receive, queue="dbo.other") == 9617
    here.ddl(lambda tx: ddl_services.alter_queue(tx, here.db.catalog, "dbo", "other", _ON))
    world.run_for(0.1)
    assert not here.db.transmission_queue and bodies(here.receive(queue="dbo.other")) == [b"1", b"2"]


def test_a_disabled_broker_holds_messages_at_the_sender(world, here):
    handle = here.begin()
    here.ddl(
        lambda tx: ddl_databases.set_broker(
            tx, here.engine.databases, here.db, here.engine.delivery, here.engine.entropy, "DISABLE_BROKER"
        )
    )
    here.send(handle)
    world.run_for(1)
    assert here.db.transmission_status(handle) == "The broker is disabled in the sender's database."
    here.ddl(
        lambda tx: ddl_databases.set_broker(
            tx, here.engine.databases, here.db, here.engine.delivery, here.engine.entropy, "ENABLE_BROKER"
        )
    )
    world.run_for(0.1)
    assert len(here.receive()) == 1


def test_new_broker_removes_all_conversations_without_messages(here):
    handles = [here.begin() for _ in range(3)]
    for handle in handles:
        here.send(handle)
    before = here.db.catalog.service_broker_guid
    here.ddl(
        lambda tx: ddl_databases.set_broker(
            tx, here.engine.databases, here.db, here.engine.delivery, here.engine.entropy, "NEW_BROKER"
        )
    )
    assert here.db.catalog.service_broker_guid != before and here.db.catalog.is_broker_enabled
    assert not here.db.endpoints and not here.db.groups and here.queue.depth == 0
    assert not [key for key in here.store.rows if key[0].startswith("broker.")]


def test_error_broker_conversations_puts_an_error_into_every_queue(here):
    handle = here.begin()
    here.send(handle)
    here.ddl(
        lambda tx: ddl_databases.set_broker(
            tx, here.engine.databases, here.db, here.engine.delivery, here.engine.entropy, "ERROR_BROKER_CONVERSATIONS"
        )
    )
    rows = here.receive_all()
    assert sorted(kinds(rows)) == ["Error", "Error", M]
    assert all("<Code>-9719</Code>" in row.message_body.decode("utf-16-le") for row in rows if row.message_body != b"x")


def test_a_dropped_service_raises_an_error_at_the_far_side(here):
    here.ddl(lambda tx: ddl_services.create_queue(tx, here.db.catalog, "dbo", "other", _ON))
    here.ddl(lambda tx: ddl_services.create_service(tx, here.db.catalog, "T", queue="dbo.other", contracts=[C]))
    handle = here.begin(to_service="T")
    here.send(handle)
    here.ddl(lambda tx: ddl_services.drop_service(tx, here.db, here.engine.severance, "T"))
    [row] = here.receive()
    assert "<Code>-8470</Code>" in row.message_body.decode("utf-16-le") and state(here, handle) == "ER"
    here.ddl(lambda tx: ddl_services.drop_queue(tx, here.db.catalog, "dbo", "other"))


@pytest.mark.parametrize(
    "drop, number",
    [
        (lambda here, tx: ddl_services.drop_message_type(tx, here.db.catalog, M), 3716),
        (lambda here, tx: ddl_services.drop_contract(tx, here.db, here.engine.severance, C), 3716),
        (lambda here, tx: ddl_services.drop_queue(tx, here.db.catalog, "dbo", "q"), 3716),
        (lambda here, tx: ddl_services.drop_message_type(tx, here.db.catalog, system_objects.DEFAULT), 9663),
        (lambda here, tx: ddl_services.drop_service(tx, here.db, here.engine.severance, "unknown"), 15151),
        (lambda here, tx: ddl_services.create_service(tx, here.db.catalog, S, queue=Q), 2714),
        (lambda here, tx: ddl_services.create_contract(tx, here.db.catalog, "x", usages=[(M, "TARGET")]), 8492),
        (
            lambda here, tx: ddl_services.create_contract(tx, here.db.catalog, "x", usages=[(M, "ANY"), (M, "ANY")]),
            8403,
        ),
        (lambda here, tx: ddl_network.create_route(tx, here.db.catalog, "x", address="TCP:/nowhere"), 9744),
        (
            lambda here, tx: ddl_network.create_route(tx, here.db.catalog, "x", broker_instance="A", address="LOCAL"),
            9662,
        ),
        (lambda here, tx: ddl_services.alter_service(tx, here.db, here.engine.delivery, S), 8493),
    ],
)
def test_invalid_ddl_fails(here, drop, number):
    assert error_number(here.ddl, lambda tx: drop(here, tx)) == number


def test_rolled_back_ddl_leaves_nothing(here):
    before = dict(here.store.rows)
    tx = here.engine.transactions.begin()
    ddl_services.create_message_type(tx, here.db.catalog, "new")
    ddl_services.create_queue(tx, here.db.catalog, "dbo", "new", _ON)
    ddl_services.alter_queue(tx, here.db.catalog, "dbo", "q", _OFF)
    ddl_network.drop_endpoint(tx, here.engine.link, "broker")
    tx.rollback()
    assert (
        "new" not in here.db.catalog.message_types
        and "dbo.new" not in here.db.catalog.queues
        and here.queue.is_receive_enabled
        and here.engine.link.endpoint is not None
    )
    assert here.store.rows == before


def test_a_service_moves_to_another_queue_with_its_messages(here):
    handle = here.begin()
    here.send(handle, b"1")
    here.ddl(lambda tx: ddl_services.create_queue(tx, here.db.catalog, "dbo", "other", _ON))
    here.ddl(lambda tx: ddl_services.alter_service(tx, here.db, here.engine.delivery, S, queue="dbo.other"))
    here.send(handle, b"2")
    assert here.receive() == [] and here.queue.depth == 0
    assert bodies(here.receive(queue="dbo.other")) == [b"1", b"2"]


# Groups, priorities, timers, lifetimes


def test_related_conversations_share_a_group(here):
    one = here.begin()
    two = here.begin(related_conversation=one)
    group = "5F5D4F34-0000-0000-0000-00000000000A"
    three = here.begin(related_group=group)
    assert here.endpoint(one).incoming.group is here.endpoint(two).incoming.group
    assert here.endpoint(three).incoming.group.conversation_group_id == group and group in here.db.groups


def test_a_conversation_moves_to_another_group_with_its_messages(here):
    one, two = here.begin(), here.begin()
    here.send(one, b"1")
    here.send(two, b"2")
    target_one, target_two = target_of(here, one), target_of(here, two)
    group = target_two.incoming.group.conversation_group_id
    here.run(
        here.autocommit(lambda tx: here.engine.dialogs.move(tx, here.db, target_one.terms.conversation_handle, group))
    )
    assert target_one.incoming.group is target_two.incoming.group and len(here.db.groups) == 3
    assert bodies(here.receive()) == [b"1", b"2"]


def test_get_conversation_group_locks_another_group_each_time(here):
    for body in (b"1", b"2"):
        here.send(here.begin(), body)
    tx = here.engine.transactions.begin()

    def get():
        return here.run(here.engine.receiving.get_conversation_group(tx, here.db, here.queue))

    one, two = get(), get()
    assert one != two and {one, two} <= set(here.db.groups) and get() is None
    assert here.receive() == []
    assert bodies(here.receive(tx, conversation_group_id=two)) == [b"2"]
    assert bodies(here.receive(tx)) == [b"1"]
    tx.rollback()
    assert here.queue.depth == 2


def test_a_receive_returns_messages_of_one_group_only(here):
    one = here.begin()
    two = here.begin()
    for handle, body in ((one, b"1"), (two, b"2"), (one, b"3")):
        here.send(handle, body)
    assert bodies(here.receive()) == [b"1", b"3"]
    assert bodies(here.receive(top=1)) == [b"2"]


def test_receive_can_name_a_conversation_or_a_group(here):
    one, two = here.begin(), here.begin()
    here.send(one, b"1")
    here.send(two, b"2")
    target = target_of(here, two)
    assert bodies(here.receive(conversation_handle=target.terms.conversation_handle)) == [b"2"]
    assert here.receive(conversation_group_id=target.incoming.group.conversation_group_id) == []
    unknown = "5F5D4F34-0000-0000-0000-000000000000"
    assert error_number(here.receive, conversation_handle=unknown) == 8426
    assert error_number(here.receive, conversation_group_id=unknown) == 8436


def test_receive_takes_the_conversation_with_the_highest_priority_first(here):
    low = here.begin()
    here.send(low, b"low")
    here.ddl(lambda tx: ddl_services.create_priority(tx, here.db.catalog, "high", contract=C, level=9))
    here.ddl(lambda tx: ddl_services.create_priority(tx, here.db.catalog, "other", level=2))
    high = here.begin()
    here.send(high, b"high")
    assert here.endpoint(high).terms.priority == 9 and here.endpoint(low).terms.priority == 5
    assert target_of(here, high).terms.priority == 9
    assert bodies(here.receive_all()) == [b"high", b"low"]


def test_a_timer_puts_its_message_before_all_others_in_its_own_queue(world, here):
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    here.send(handle_of(row), b"answer")
    here.run(here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 60)))
    here.run(here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 120)))
    world.run_for(119)
    assert here.queue.depth == 1
    world.run_for(2)
    rows = here.receive()
    assert kinds(rows) == ["DialogTimer", M] and handle_of(rows[0]) == handle
    assert here.endpoint(handle).dialog_timer is None


@given(st.lists(st.tuples(st.integers(-200, 200), st.integers(1, 100)), max_size=6))
def test_a_timer_fires_when_its_time_has_passed_or_the_wall_clock_reaches_its_moment(changes):
    world = World()
    here = world.instance("here")
    handle = here.begin()
    here.run(here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 200)))
    passed_s = wall_s = 0
    is_due = False
    for step_s, duration_s in changes:
        world.set_wall_clock(step_s, here)
        world.run_for(duration_s)
        passed_s, wall_s = passed_s + duration_s, wall_s + step_s + duration_s
        is_due = is_due or passed_s >= 200 or wall_s >= 200
        assert here.queue.depth == is_due


def test_an_exceeded_lifetime_raises_an_error_on_both_sides(world, here):
    handle = here.begin(lifetime_s=100)
    here.send(handle)
    assert (
        error_number(here.run, here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 200)))
        == 8410
    )
    [row] = here.receive()
    world.run_for(101)
    rows = here.receive_all()
    assert [row.message_body.decode("utf-16-le").count("<Code>-8489</Code>") for row in rows] == [1, 1]
    assert state(here, handle) == state(here, handle_of(row)) == "ER"


def test_nothing_is_stored_of_messages_whose_conversation_its_lifetime_has_ended(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: []
    initiator.send(world.dialog(initiator, target, lifetime_s=100))
    world.run_for(101)
    assert not initiator.db.transmission_queue and not [key for key in initiator.store.rows if "xmit" in key[0]]


def test_a_dropped_contract_removes_its_conversations_and_the_far_side_gets_an_error(world, pair):
    initiator, target = pair
    initiator.send(world.dialog(initiator, target))
    world.run_for(1)
    assert len(target.receive_all()) == 1
    initiator.ddl(
        lambda tx: ddl_services.alter_service(tx, initiator.db, initiator.engine.delivery, S, drop_contracts=[C])
    )
    initiator.ddl(lambda tx: ddl_services.drop_contract(tx, initiator.db, initiator.engine.severance, C))
    world.run_for(1)
    [row] = target.receive()
    assert "<Code>-8487</Code>" in row.message_body.decode("utf-16-le") and not initiator.db.endpoints


def test_retention_keeps_sent_and_received_messages_until_the_end(here):
    here.alter_queue(retention=True)
    handle = here.begin()
    here.send(handle, b"1")
    [row] = here.receive()
    assert sorted((row.status, row.message_body) for row in here.db.queue_rows(here.queue)) == [(0, b"1"), (3, b"1")]
    assert here.receive() == []
    here.end(handle_of(row))
    here.receive()
    here.end(handle)
    assert here.queue.depth == 0
    assert not [key for key in here.store.rows if ".queue." in key[0]]


def test_a_queue_row_identifies_its_message_and_service(here):
    here.send(here.begin())
    [row] = here.db.queue_rows(here.queue)
    assert len(row.message_id) == 36 and row.incoming.terms.service_id >= 65536
    assert 0 < row.message_enqueue_time <= here.engine.clock.utc_ns()


def test_the_id_of_a_message_that_nobody_sent_is_a_uniqueidentifier(world, here):
    for handle in [here.begin() for _ in range(40)]:  # one in sixteen began with a sign
        here.run(here.autocommit(lambda tx, handle=handle: here.engine.dialogs.begin_timer(tx, here.db, handle, 1)))
    world.run_for(2)
    ids = [row.message_id for row in here.db.queue_rows(here.queue)]
    assert len(ids) == 40 and all(str(uuid.UUID(message_id)).upper() == message_id for message_id in ids)
