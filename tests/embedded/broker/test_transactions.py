"""Transactions: locks, savepoints, poison messages, group commit, full disks and lost sessions."""

from contextlib import suppress

import pytest

from harness.embedded.broker import ddl_databases, ddl_services
from harness.embedded.broker.database import ConversationEndpoint
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, TaskState
from tests.embedded.broker.world import M, bodies, handle_of, snapshot, with_transaction


def waiting_send(instance, tx, handle, body=b"x"):
    task = instance.spawn(outcome(instance.engine.dialogs.send(tx, instance.db, [handle], M, body)))
    instance.world.driver.settle()
    return task


def outcome(generator):
    try:
        yield from generator
    except SqlServerError as error:
        return error.number
    return 0


def begin_tx(instance):
    return instance.engine.transactions.begin()


def test_a_group_stays_locked_until_the_transaction_ends(here):
    handle = here.begin()
    one, two = begin_tx(here), begin_tx(here)
    here.send(handle, b"1", one)
    task = waiting_send(here, two, handle, b"2")
    assert task.state is TaskState.WAITING
    here.commit(one)
    assert task.state is TaskState.DONE
    here.commit(two)
    assert bodies(here.receive()) == [b"1", b"2"]
    assert here.engine.waits.totals["LCK_M_X"].waiting_tasks_count == 1


def test_locks_are_granted_first_come_first_served(here):
    handle = here.begin()
    holder = begin_tx(here)
    here.send(handle, b"0", holder)
    queue = [begin_tx(here) for _ in range(4)]
    for number, tx in enumerate(queue, start=1):
        waiting_send(here, tx, handle, str(number).encode())
    here.commit(holder)
    for tx in queue:
        here.commit(tx)
    assert bodies(here.receive()) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_deadlock_has_one_victim(here):
    handles = [here.begin() for _ in range(3)]
    transactions = [begin_tx(here) for _ in range(3)]
    for tx, handle in zip(transactions, handles, strict=True):
        here.send(handle, tx=tx)
    assert waiting_send(here, transactions[0], handles[1]).state is TaskState.WAITING
    assert waiting_send(here, transactions[1], handles[2]).state is TaskState.WAITING
    victim = waiting_send(here, transactions[2], handles[0])
    assert victim.result == 1205
    transactions[2].rollback()
    here.world.driver.settle()
    here.commit(transactions[1])
    here.commit(transactions[0])


def test_a_lock_timeout_is_1222(here):
    handle = here.begin()
    one, two = begin_tx(here), begin_tx(here)
    here.send(handle, tx=one)
    two.lock_timeout_ns = 2 * SECOND
    task = waiting_send(here, two, handle)
    here.world.run_for(1.9)
    assert task.state is TaskState.WAITING
    here.world.run_for(0.2)
    assert task.result == 1222
    two.rollback()
    one.rollback()


def test_a_second_reader_cannot_receive_from_a_locked_conversation_group(here):
    handle = here.begin()
    here.send(handle, b"1")
    here.send(handle, b"2")
    one, two = begin_tx(here), begin_tx(here)
    assert bodies(here.receive(one, top=1)) == [b"1"]
    assert here.receive(two) == []
    here.send(here.begin(), b"3")
    assert bodies(here.receive(two)) == [b"3"]
    assert bodies(here.receive(one)) == [b"2"]  # it may receive from the group that it has locked
    here.commit(one)
    here.commit(two)


def test_messages_arrive_while_their_group_is_locked(here):
    handle = here.begin()
    here.send(handle, b"1")
    tx = begin_tx(here)
    here.receive(tx)
    here.send(handle, b"2")
    assert here.queue.depth == 1 and here.receive() == []
    here.commit(tx)
    assert bodies(here.receive()) == [b"2"]


def test_waitfor_returns_when_a_message_comes_or_the_timeout_ends(here):
    handle = here.begin()
    task = here.spawn(
        here.autocommit(lambda tx: here.engine.receiving.receive(tx, here.db, here.queue, top=1, wait=True))
    )
    here.world.run_for(100)
    assert task.state is TaskState.WAITING and here.queue.receivers_waiting == 1
    here.send(handle, b"1")
    here.world.run_for(0.1)
    assert bodies(task.result) == [b"1"] and here.queue.receivers_waiting == 0
    start = here.world.now_s()
    assert here.receive(wait=True, timeout_ms=3000) == []
    assert here.world.now_s() - start == pytest.approx(3, abs=0.1)
    assert here.engine.waits.totals["BROKER_RECEIVE_WAITFOR"].waiting_tasks_count == 2


def test_waitfor_sees_a_message_whose_group_becomes_free(here):
    here.send(here.begin(), b"1")
    tx = begin_tx(here)
    here.receive(tx)
    task = here.spawn(
        here.autocommit(lambda tx: here.engine.receiving.receive(tx, here.db, here.queue, top=1, wait=True))
    )
    here.world.run_for(1)
    tx.rollback()
    here.world.run_for(1)
    assert bodies(task.result) == [b"1"]


@pytest.mark.parametrize("number", [9617, 208])
def test_waitfor_fails_when_its_queue_is_dropped_or_turned_off(here, number):
    task = here.spawn(
        outcome(here.autocommit(lambda tx: here.engine.receiving.receive(tx, here.db, here.queue, top=1, wait=True)))
    )
    here.world.run_for(1)
    if number == 9617:
        here.alter_queue(status=False)
    else:
        here.ddl(lambda tx: ddl_services.drop_service(tx, here.db, here.engine.severance, "S"))
        here.ddl(lambda tx: ddl_services.drop_queue(tx, here.db.catalog, "dbo", "q"))
    here.world.run_for(1)
    assert task.result == number


def test_a_cancelled_waitfor_changes_nothing(here):
    tx = begin_tx(here)
    task = here.spawn(here.engine.receiving.receive(tx, here.db, here.queue, top=1, wait=True))
    here.world.run_for(1)
    here.scheduler.cancel(task)
    assert here.queue.receivers_waiting == 0 and not here.queue.waiters.waiters
    tx.rollback()


def test_rows_come_back_in_order_after_a_rollback(here):
    handle = here.begin()
    for number in range(10):
        here.send(handle, str(number).encode())
    tx = begin_tx(here)
    here.receive(tx, top=3)
    here.receive(tx, top=4)
    tx.rollback()
    assert bodies(here.receive()) == [str(number).encode() for number in range(10)]


def test_rollback_to_a_savepoint_undoes_statements_but_keeps_locks(here):
    handle = here.begin()
    here.send(handle, b"1")
    tx = begin_tx(here)
    mark = tx.mark()
    [row] = here.receive(tx)
    other = here.begin(tx)
    here.send(other, b"never", tx)
    tx.rollback_to(mark)
    assert here.queue.depth == 1 and here.receive() == [] and other not in here.db.endpoints
    assert bodies(here.receive(tx)) == [b"1"]
    here.send(handle_of(row), b"answer", tx)
    here.commit(tx)
    assert bodies(here.receive_all()) == [b"answer"]


def test_five_rollbacks_in_a_row_disable_the_queue(here):
    here.send(here.begin())
    for number in range(5):
        assert here.queue.is_receive_enabled, number
        tx = begin_tx(here)
        assert len(here.receive(tx)) == 1
        tx.rollback()
        here.world.run_for(0.1)
    assert not here.queue.is_receive_enabled and not here.queue.is_enqueue_enabled
    here.crash()
    assert not here.queue.is_receive_enabled
    here.alter_queue(status=True)
    assert len(here.receive()) == 1


def test_a_commit_resets_the_count_of_rollbacks_and_a_savepoint_does_not_count(here):
    handle = here.begin()
    for _ in range(3):
        here.send(handle)
    for number in range(12):
        tx = begin_tx(here)
        mark = tx.mark()
        here.receive(tx, top=1)
        if number % 4 == 3:
            here.commit(tx)
        elif number % 2:
            tx.rollback()
        else:
            tx.rollback_to(mark)
            here.commit(tx)
    assert here.queue.is_receive_enabled


def test_poison_handling_can_be_off_and_empty_receives_do_not_count(here):
    for _ in range(6):
        tx = begin_tx(here)
        here.receive(tx)
        tx.rollback()
    here.world.run_for(0.1)
    assert here.queue.is_receive_enabled
    here.alter_queue(poison_message_handling=False)
    here.send(here.begin())
    for _ in range(6):
        tx = begin_tx(here)
        here.receive(tx)
        tx.rollback()
    here.world.run_for(0.1)
    assert here.queue.is_receive_enabled


def test_commits_of_many_sessions_share_flushes(here):
    handles = [here.begin() for _ in range(20)]

    def sends(handle):
        for _ in range(10):
            yield from here.autocommit(lambda tx: here.engine.dialogs.send(tx, here.db, [handle], M, b"x"))

    flushes, commits = here.store.flushes, here.store.commits
    tasks = [here.spawn(sends(handle)) for handle in handles]
    here.world.driver.run_until(lambda: all(task.state is TaskState.DONE for task in tasks))
    assert here.store.commits - commits == 200 and here.store.flushes - flushes <= 12
    assert here.engine.waits.totals["WRITELOG"].waiting_tasks_count >= 200
    assert sum(1 for key in here.store.rows if ".queue." in key[0]) == 200


def test_a_full_disk_rolls_the_transaction_back(here):
    handle = here.begin()
    here.store.is_full = True
    with pytest.raises(SqlServerError) as caught:
        here.send(handle)
    assert caught.value.number == 9002 and here.endpoint(handle).send_sequence == 0
    here.store.is_full = False
    here.send(handle, b"1")
    assert bodies(here.receive()) == [b"1"]


def everything(instance):
    """Each endpoint with all that a transaction may change in it."""
    fields = set(ConversationEndpoint.__slots__) - {"database", "service", "terms", "incoming", "outgoing", "page"}
    return {
        handle: {field: getattr(endpoint, field) for field in fields} | {"staged": endpoint.outgoing.staged}
        for handle, endpoint in instance.db.endpoints.items()
    }


@pytest.mark.parametrize("who", ["initiator", "target"])
@pytest.mark.parametrize(
    "change",
    [
        lambda here, tx, handle: here.send(handle, b"2", tx),
        lambda here, tx, handle: here.end(handle, tx),
        lambda here, tx, handle: here.end(handle, tx, error=(1, "x")),
        lambda here, tx, handle: here.end(handle, tx, cleanup=True),
        lambda here, tx, handle: here.run(here.engine.dialogs.begin_timer(tx, here.db, handle, 9)),
    ],
    ids=["send", "end", "error", "cleanup", "timer"],
)
@pytest.mark.parametrize("is_ended", [False, True], ids=["conversing", "ended by the far side"])
def test_a_transaction_that_fails_leaves_every_endpoint_as_it_was(here, who, change, is_ended):
    handles = {"initiator": here.begin()}
    here.send(handles["initiator"], b"1")
    [row] = here.receive()
    handles["target"] = handle_of(row)
    for handle in handles.values():
        here.run(here.autocommit(lambda tx, handle=handle: here.engine.dialogs.begin_timer(tx, here.db, handle, 99)))
    if is_ended:
        here.end(next(handle for side, handle in handles.items() if side != who))
    before = everything(here), snapshot(here)
    here.store.is_full = True
    for is_committed in (False, True):
        tx = begin_tx(here)
        with suppress(SqlServerError):  # 9002, or the refusal of an ended conversation
            change(here, tx, handles[who])
            if is_committed:
                here.commit(tx)
        if tx.active:
            tx.rollback()
        assert (everything(here), snapshot(here)) == before


def test_a_target_with_a_full_disk_acknowledges_nothing_and_loses_nothing(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"0")
    world.run_for(0.1)
    target.store.is_full = True
    initiator.send(handle, b"1")
    world.run_for(1)
    assert len(initiator.db.transmission_queue) == 1
    target.store.is_full = False
    world.run_for(10)
    assert bodies(target.receive()) == [b"0", b"1"] and not initiator.db.transmission_queue


def test_a_session_lost_during_its_commit_still_commits(here):
    handle = here.begin()
    tx = begin_tx(here)
    here.send(handle, b"1", tx)
    task = here.spawn(tx.commit())
    here.world.driver.settle()
    assert task.state is TaskState.WAITING
    here.scheduler.cancel(task)
    assert not tx.active
    here.world.run_for(0.1)
    assert bodies(here.receive()) == [b"1"]
    here.send(handle, b"2")


def test_one_receive_returns_ten_thousand_rows(here):
    handle = here.begin()

    def send_many(tx):
        for number in range(10_000):
            yield from here.engine.dialogs.send(tx, here.db, [handle], M, number.to_bytes(4, "big"))

    here.run(here.autocommit(send_many))
    rows = here.receive(top=10_000)
    assert [int.from_bytes(row.message_body, "big") for row in rows] == list(range(10_000))
    assert here.queue.depth == 0


def test_writes_of_other_packages_are_committed_with_the_transaction(here):
    with_transaction(here, lambda tx: tx.write("here.dbo.t", 1, ("row", 2, b"3")))
    assert ("here.dbo.t", 1, ("row", 2, b"3")) in list(here.store.load())
    with_transaction(here, lambda tx: tx.write("here.dbo.t", 1, None))
    assert not [entry for entry in here.store.load() if entry[0] == "here.dbo.t"]


def test_new_broker_during_the_flush_of_a_commit_leaves_no_rows(world, pair):
    initiator, target = pair
    remote, local = world.dialog(initiator, target), initiator.begin(to_broker_instance="CURRENT DATABASE")
    tx = begin_tx(initiator)
    initiator.send(remote, tx=tx)
    initiator.send(local, tx=tx)
    task = initiator.spawn(tx.commit())
    world.driver.settle()
    assert task.state is TaskState.WAITING
    initiator.ddl(
        lambda tx: ddl_databases.set_broker(
            tx,
            initiator.engine.databases,
            initiator.db,
            initiator.engine.delivery,
            initiator.engine.entropy,
            "NEW_BROKER",
        )
    )
    world.run_for(1)
    assert not initiator.db.endpoints and not initiator.db.transmission_queue and initiator.queue.depth == 0
    world.run_for(100)
    initiator.crash()
    world.run_for(1)
    assert not initiator.db.endpoints and not [key for key in initiator.store.rows if key[0].startswith("broker.")]


def test_rollback_to_a_savepoint_undoes_an_end_with_error_and_restores_its_messages(here):
    handle = here.begin()
    tx = begin_tx(here)
    here.send(handle, b"1", tx)
    here.send(handle, b"2", tx)
    mark = tx.mark()
    here.end(handle, tx, error=(1, "x"))
    tx.rollback_to(mark)
    here.send(handle, b"3", tx)
    here.commit(tx)
    assert bodies(here.receive()) == [b"1", b"2", b"3"]


def test_a_timer_that_waited_for_a_removed_conversation_does_nothing(here):
    handle = here.begin()
    here.run(here.autocommit(lambda tx: here.engine.dialogs.begin_timer(tx, here.db, handle, 1)))
    tx = begin_tx(here)
    here.end(handle, tx, cleanup=True)
    here.world.run_for(5)
    here.commit(tx)
    here.world.run_for(1)
    assert here.receive() == []
    here.crash()
    assert not here.db.endpoints


def test_a_message_to_a_queue_that_is_off_survives_the_rollback_of_an_end(here):
    first, second = here.begin(), here.begin()
    for handle in (first, second):
        here.send(handle)
    here.alter_queue(status=False)

    def timer(handle):
        tx = begin_tx(here)
        here.run(here.engine.dialogs.begin_timer(tx, here.db, handle, 1))
        here.commit(tx)
        here.world.run_for(2)

    timer(first)
    tx = begin_tx(here)
    here.end(first, tx=tx)
    timer(second)
    tx.rollback()
    before = snapshot(here)
    assert len(before["blocked"]["q"]) == 2
    here.crash()
    assert snapshot(here) == before
