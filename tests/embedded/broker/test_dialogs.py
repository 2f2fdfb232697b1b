"""BEGIN DIALOG, END, MOVE and BEGIN CONVERSATION TIMER at their edges: locks, refusals, rollback."""

import pytest

from harness.embedded.broker import ddl_services
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.dialogs import LIFETIME_MAX_S
from harness.embedded.errors import SqlServerError
from tests.embedded.broker.world import C, bodies, check_queue, handle_of, kinds


def error_of(call, *args, **kwargs):
    with pytest.raises(SqlServerError) as caught:
        call(*args, **kwargs)
    return caught.value


def numbers_of(instance, change):
    """The numbers of the errors of a change that now runs on its own, as far as it can for a second."""
    numbers = []

    def body():
        try:
            yield from instance.autocommit(change)
        except SqlServerError as error:
            numbers.append(error.number)

    instance.spawn(body())
    instance.world.run_for(1)
    return numbers


def begin_tx(instance):
    return instance.engine.transactions.begin()


def move(instance, handle, group, tx=None):
    dialogs = instance.engine.dialogs
    if tx is not None:
        return instance.run(dialogs.move(tx, instance.db, handle, group))
    return instance.run(instance.autocommit(lambda tx: dialogs.move(tx, instance.db, handle, group)))


def begin_timer(instance, handle, timeout_s=60):
    return instance.run(
        instance.autocommit(lambda tx: instance.engine.dialogs.begin_timer(tx, instance.db, handle, timeout_s))
    )


def group_of(instance, handle):
    return instance.endpoint(handle).incoming.group.conversation_group_id


@pytest.fixture
def other_service(here):
    """A service T on a queue of its own."""
    here.ddl(lambda tx: ddl_services.create_queue(tx, here.db.catalog, "dbo", "other", QueueOptions()))
    here.ddl(lambda tx: ddl_services.create_service(tx, here.db.catalog, "T", queue="dbo.other", contracts=[C]))
    return "T"


def test_the_longest_lifetime_is_for_ever_and_a_longer_one_is_refused(here):
    assert here.endpoint(here.begin(lifetime_s=LIFETIME_MAX_S)).terms.lifetime is None
    assert error_of(here.begin, lifetime_s=LIFETIME_MAX_S + 1).number == 8411


def test_a_related_dialog_waits_for_the_lock_of_the_group(here):
    handle = here.begin()
    tx = begin_tx(here)
    here.send(handle, tx=tx)
    here.spawn(
        here.autocommit(
            lambda tx: here.engine.dialogs.begin(
                tx, here.db, from_service="S", to_service="S", contract=C, related_conversation=handle
            )
        )
    )
    here.world.run_for(1)
    assert len(here.db.endpoints) == 1
    here.commit(tx)
    here.world.run_for(1)
    assert len(here.endpoint(handle).incoming.group.members) == 2


def test_a_group_belongs_to_one_service(here, other_service):
    handle = here.begin()
    group = group_of(here, handle)
    error = error_of(here.begin, from_service=other_service, related_group=group)
    assert error.number == 9610 and "RELATED_CONVERSATION_GROUP" in error.text and group in error.text
    error = error_of(here.begin, from_service=other_service, related_conversation=handle)
    assert error.number == 9610 and handle in error.text


def test_an_end_that_waited_for_its_conversation_finds_it_gone(here):
    handle = here.begin()
    tx = begin_tx(here)
    here.end(handle, tx, cleanup=True)
    caught = numbers_of(here, lambda tx: here.engine.dialogs.end(tx, here.db, handle))
    assert caught == []
    here.commit(tx)
    here.world.run_for(1)
    assert caught == [8426]


def test_end_with_cleanup_takes_back_what_its_transaction_sent(here):
    tx = begin_tx(here)
    handle = here.begin(tx)
    here.send(handle, b"never", tx)
    here.end(handle, tx, cleanup=True)
    here.commit(tx)
    assert here.receive() == [] and not here.db.endpoints and not here.db.transmission_queue


def test_an_end_with_error_of_a_dialog_that_never_sent_tells_nobody(here):
    tx = begin_tx(here)
    handle = here.begin(tx)
    here.send(handle, b"never", tx)
    here.end(handle, tx, error=(5, "stop"))
    here.commit(tx)
    assert here.receive() == [] and not here.db.endpoints and not here.db.transmission_queue


def test_end_discards_the_messages_that_came_while_the_queue_was_off(world, pair):
    initiator, target = pair
    kept, ended = world.dialog(initiator, target), world.dialog(initiator, target)
    for handle in (kept, ended):
        initiator.send(handle, b"1")
    world.run_for(0.1)
    target.alter_queue(status=False)
    for handle in (kept, ended):
        initiator.send(handle, b"2")
    world.run_for(0.1)
    conversation = initiator.endpoint(ended).terms.conversation_id
    target.end(target.engine.databases.conversations[conversation, False].terms.conversation_handle)
    assert bodies(target.queue.blocked) == [b"2"]
    target.alter_queue(status=True)
    assert bodies(target.receive_all()) == [b"1", b"2"]
    target.crash()
    assert target.receive_all() == []


def test_move_refuses(here, other_service):
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    elsewhere = here.begin(from_service=other_service)
    unknown = "5F5D4F34-0000-0000-0000-000000000000"
    assert error_of(move, here, handle, unknown).number == 8436
    assert error_of(move, here, handle, group_of(here, elsewhere)).number == 8439
    here.end(handle_of(row))
    assert error_of(move, here, handle_of(row), group_of(here, handle)).number == 8438


def test_a_rolled_back_move_leaves_the_conversation_in_its_group(here):
    one, two = here.begin(), here.begin()
    before, after = group_of(here, one), group_of(here, two)
    tx = begin_tx(here)
    move(here, one, after, tx)
    assert group_of(here, one) == after
    tx.rollback()
    assert group_of(here, one) == before and set(here.db.groups) == {before, after}
    check_queue(here)


def test_a_move_that_waited_for_its_group_finds_it_gone(here):
    one, two = here.begin(), here.begin()
    before, after = group_of(here, one), group_of(here, two)
    tx = begin_tx(here)
    here.end(two, tx, cleanup=True)
    caught = numbers_of(here, lambda tx: here.engine.dialogs.move(tx, here.db, one, after))
    assert caught == []
    here.commit(tx)
    here.world.run_for(1)
    assert caught == [8436] and group_of(here, one) == before


def test_an_ended_conversation_gets_no_timer(here):
    handle = here.begin()
    here.send(handle)
    [row] = here.receive()
    here.end(handle_of(row))
    assert error_of(begin_timer, here, handle_of(row)).number == 8458
    begin_timer(here, handle, 1)
    here.world.run_for(2)
    assert sorted(kinds(here.receive_all())) == ["DialogTimer", "EndDialog"]


def test_the_end_of_a_side_ends_its_timer_unless_it_is_rolled_back(here):
    handle = here.begin()
    here.send(handle)
    begin_timer(here, handle)
    due_ns = here.endpoint(handle).dialog_timer
    tx = begin_tx(here)
    here.end(handle, tx)
    assert here.endpoint(handle).dialog_timer is None
    tx.rollback()
    assert here.endpoint(handle).dialog_timer == due_ns
    here.end(handle)
    here.world.run_for(100)
    assert kinds(here.receive_all()) == ["M", "EndDialog"]
