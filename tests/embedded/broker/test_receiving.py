"""Which messages a RECEIVE takes, and which it leaves to others."""

import pytest

from harness.embedded.broker import ddl_services
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import MILLISECOND
from tests.embedded.broker.world import C, bodies, handle_of


def begin_tx(instance):
    return instance.engine.transactions.begin()


def two_targets_in_one_group(here):
    """Two conversations with messages 1, 2 and 3, 4, whose target endpoints share a group: the initiators' handles."""
    targets, handles = [], []
    for texts in ((b"1", b"2"), (b"3", b"4")):
        handle = here.begin()
        handles.append(handle)
        for text in texts:
            here.send(handle, text)
        endpoint = here.endpoint(handle)
        targets.append(here.engine.databases.conversations[endpoint.terms.conversation_id, False])
    one, two = targets
    group = two.incoming.group.conversation_group_id
    here.run(here.autocommit(lambda tx: here.engine.dialogs.move(tx, here.db, one.terms.conversation_handle, group)))
    return handles


@pytest.fixture
def other_queue(here):
    here.ddl(lambda tx: ddl_services.create_queue(tx, here.db.catalog, "dbo", "other", QueueOptions()))
    here.ddl(lambda tx: ddl_services.create_service(tx, here.db.catalog, "T", queue="dbo.other", contracts=[C]))
    return "dbo.other"


@pytest.mark.parametrize("top", [1, 2, 3, 4])
def test_top_counts_the_messages_of_all_conversations_of_the_group(here, top):
    two_targets_in_one_group(here)
    assert bodies(here.receive(top=top)) == [b"1", b"2", b"3", b"4"][:top]
    assert bodies(here.receive_all()) == [b"1", b"2", b"3", b"4"][top:]


def test_top_0_takes_and_locks_nothing(here):
    here.send(here.begin())
    tx = begin_tx(here)
    assert here.receive(tx, top=0) == []
    assert len(here.receive()) == 1
    tx.rollback()


def test_a_group_locked_by_a_send_is_left_alone(here):
    handle = here.begin()
    for body in (b"1", b"2"):
        here.send(handle, body)
    [row] = here.receive(top=1)
    tx = begin_tx(here)
    here.send(handle_of(row), b"answer", tx)
    assert here.receive() == []
    tx.rollback()
    assert bodies(here.receive()) == [b"2"]


def test_a_free_group_of_higher_priority_comes_before_the_own_locked_one(here):
    low = here.begin()
    for body in (b"1", b"2"):
        here.send(low, body)
    here.ddl(lambda tx: ddl_services.create_priority(tx, here.db.catalog, "high", contract=C, level=9))
    tx = begin_tx(here)
    assert bodies(here.receive(tx, top=1)) == [b"1"]
    here.send(here.begin(), b"high")
    assert bodies(here.receive(tx)) == [b"high"]
    assert bodies(here.receive(tx)) == [b"2"]
    tx.rollback()


def test_a_message_that_comes_while_its_group_is_locked_gives_the_group_its_priority(here):
    low, middle = here.begin(), here.begin()
    here.send(low, b"low")
    here.send(middle, b"middle")
    here.ddl(lambda tx: ddl_services.create_priority(tx, here.db.catalog, "high", contract=C, level=9))
    high = here.begin()
    here.send(high, b"first")
    target = here.engine.databases.conversations[here.endpoint(high).terms.conversation_id, False]
    group = here.engine.databases.conversations[here.endpoint(middle).terms.conversation_id, False].incoming.group
    assert bodies(here.receive()) == [b"first"]
    move = here.engine.dialogs.move
    here.run(
        here.autocommit(lambda tx: move(tx, here.db, target.terms.conversation_handle, group.conversation_group_id))
    )
    tx = begin_tx(here)
    assert group.try_acquire(tx)
    here.send(high, b"high")
    here.world.run_for(1)
    here.commit(tx)
    assert bodies(here.receive()) == [b"high", b"middle"]


def test_a_group_locked_on_another_queue_is_not_received_from_this_one(here, other_queue):
    handle = here.begin(to_service="T")
    for body in (b"1", b"2"):
        here.send(handle, body)
    tx = begin_tx(here)
    assert bodies(here.receive(tx, queue=other_queue, top=1)) == [b"1"]
    assert here.receive(tx) == []
    assert bodies(here.receive(tx, queue=other_queue)) == [b"2"]
    tx.rollback()


def test_a_conversation_of_another_queue_is_not_found_in_this_one(here, other_queue):
    handle = here.begin(to_service="T")
    here.send(handle)
    [row] = here.db.queue_rows(here.db.catalog.queues[other_queue])
    with pytest.raises(SqlServerError, match=r"conversation handle .* is not found"):
        here.receive(conversation_handle=handle_of(row))
    with pytest.raises(SqlServerError, match=r"conversation group .* is not found"):
        here.receive(conversation_group_id=row.incoming.group.conversation_group_id)
    assert len(here.receive(queue=other_queue, conversation_handle=handle_of(row))) == 1


def test_waitfor_returns_at_once_when_there_are_messages(here):
    here.send(here.begin(), b"1")
    assert bodies(here.receive(wait=True, timeout_ms=60_000)) == [b"1"]
    assert here.engine.clock.now_ns < 60_000 * MILLISECOND


@pytest.mark.parametrize("is_locked", [False, True])
def test_waiting_for_a_conversation_ends_though_another_of_its_group_has_an_older_message(here, is_locked):
    _, sender = two_targets_in_one_group(here)
    terms = here.endpoint(sender).terms
    handle = here.engine.databases.conversations[terms.conversation_id, False].terms.conversation_handle
    assert bodies(here.receive(conversation_handle=handle)) == [b"3", b"4"]
    received = []

    def body():
        tx = begin_tx(here)
        of_handle = {"top": None, "conversation_handle": handle, "wait": True}
        received.extend((yield from here.engine.receiving.receive(tx, here.db, here.queue, **of_handle)))
        yield from tx.commit()

    here.spawn(body())
    here.world.run_for(1)
    tx = begin_tx(here)
    if is_locked:  # while the message comes
        assert here.endpoint(handle).incoming.group.try_acquire(tx)
    here.send(sender, b"5")
    here.world.run_for(1)
    here.commit(tx)
    here.world.run_for(1)
    assert bodies(received) == [b"5"]


def test_waitfor_get_conversation_group_waits(here):
    found = []

    def body():
        tx = begin_tx(here)
        found.append((yield from here.engine.receiving.get_conversation_group(tx, here.db, here.queue, wait=True)))
        yield from tx.commit()

    here.spawn(body())
    here.world.run_for(1)
    assert found == []
    here.send(here.begin())
    here.world.run_for(1)
    [group] = found
    assert group in here.db.groups


def test_five_more_rollbacks_disable_a_queue_that_was_turned_on_again(here):
    here.send(here.begin())
    for _ in range(2):
        for count in range(5):
            assert here.queue.is_receive_enabled, count
            tx = begin_tx(here)
            assert len(here.receive(tx)) == 1
            tx.rollback()
        here.world.run_for(1)
        assert not here.queue.is_receive_enabled
        here.alter_queue(status=True)
    assert here.engine.counters.rollbacks == 10


def test_a_queue_with_retention_that_is_off_takes_no_send(here):
    handle = here.begin()
    here.alter_queue(retention=True)
    here.alter_queue(status=False)
    with pytest.raises(SqlServerError) as caught:
        here.send(handle)
    assert caught.value.number == 9618


def test_the_copies_of_a_message_at_both_ends_have_one_id(here):
    here.alter_queue(retention=True)
    handle = here.begin()
    here.send(handle, b"1")
    [row] = here.receive()
    here.send(handle_of(row), b"answer")
    ids = {}
    for one in here.db.queue_rows(here.queue):
        ids.setdefault(one.message_body, set()).add(one.message_id)
    assert [len(ids[body]) for body in (b"1", b"answer")] == [1, 1] and ids[b"1"] != ids[b"answer"]
