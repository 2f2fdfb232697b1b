"""Queue monitors, sentence by sentence: Rusanu's "Understanding Queue Monitors" and the manual's "Understanding When
Activation Occurs"."""

import pytest

from harness.embedded.broker import ddl_databases, ddl_services, system_objects
from harness.embedded.broker.definitions import QueueOptions
from harness.embedded.broker.monitor_states import TRANSITIONS, MonitorEvent, MonitorState
from harness.embedded.broker.monitors import NOTIFICATION_TIMEOUT_NS
from harness.embedded.errors import SqlServerError
from harness.embedded.runtime.tasks import SECOND, Delay
from tests.embedded.broker.world import kinds

PROCEDURE = "[here].[dbo].[reader]"


class Readers:
    """Activation procedures: each launch runs `procedure(tx)` once, as a session would."""

    def __init__(self, instance):
        self.instance, self.started, self.calls = instance, [], 0
        self.procedure = self.receive_once
        instance.engine.monitors.activate = self.run

    def run(self, database, queue):
        engine = self.instance.engine
        reader = engine.monitors.current_reader()
        assert reader is not None and reader.queue is queue
        if reader not in self.started:
            self.started.append(reader)
        self.calls += 1
        tx = engine.transactions.begin()
        try:
            yield from self.procedure(tx)
        except BaseException:
            if tx.active:
                tx.rollback()
            raise
        if tx.active:
            yield from tx.commit()

    def receive_once(self, tx):
        yield from self.instance.engine.receiving.receive(tx, self.instance.db, self.instance.queue, top=10000)

    def stub(self, tx):
        return
        yield

    def slow(self, seconds, **options):
        """Receive one message and take that much time for it."""

        def procedure(tx):
            rows = yield from self.instance.engine.receiving.receive(
                tx, self.instance.db, self.instance.queue, top=1, **options
            )
            if rows:
                yield Delay(int(seconds * SECOND))

        return procedure


@pytest.fixture
def readers(here):
    readers = Readers(here)
    here.activation(status=True, procedure=PROCEDURE, max_queue_readers=8)
    return readers


@pytest.fixture
def monitor(here, readers):
    return here.queue.monitor


def messages(here, count=1):
    """Send messages on separate conversations."""
    for _ in range(count):
        here.send(here.begin())


def test_only_a_monitor_that_is_notified_launches_nothing():
    missing = {(state, event) for state in MonitorState for event in MonitorEvent} - set(TRANSITIONS)
    assert {state for state, event in missing if event is MonitorEvent.LAUNCHED} == {MonitorState.NOTIFIED}
    assert {event for _, event in missing} == {MonitorEvent.LAUNCHED, MonitorEvent.LEFT_TO_READERS}


def test_there_is_a_monitor_for_each_queue_with_activation_enabled(here, readers):
    [monitor] = here.engine.monitors.all.values()
    assert (monitor.queue_id, monitor.state, monitor.tasks_waiting) == (here.queue.object_id, "INACTIVE", 0)
    here.activation(status=False)
    assert list(here.engine.monitors.all.values()) == []


@pytest.mark.parametrize(
    "break_it, mend_it",
    [
        (lambda here: here.alter_queue(status=False), lambda here: here.alter_queue(status=True)),
        (lambda here: here.activation(status=False), lambda here: here.activation(status=True)),
        (
            lambda here: here.ddl(
                lambda tx: ddl_databases.set_broker(
                    tx, here.engine.databases, here.db, here.engine.delivery, here.engine.entropy, "DISABLE_BROKER"
                )
            ),
            lambda here: here.ddl(
                lambda tx: ddl_databases.set_broker(
                    tx, here.engine.databases, here.db, here.engine.delivery, here.engine.entropy, "ENABLE_BROKER"
                )
            ),
        ),
    ],
)
def test_there_is_no_monitor_while_queue_activation_or_broker_is_off(here, readers, break_it, mend_it):
    break_it(here)
    assert here.queue.monitor is None
    mend_it(here)
    assert here.queue.monitor is not None


def test_a_message_launches_the_procedure_and_it_drains_the_queue(here, readers, monitor):
    messages(here)
    here.world.driver.settle()
    here.world.run_for(0.1)
    assert len(readers.started) == 1 and here.queue.depth == 0
    assert monitor.state == "INACTIVE" and monitor.last_activated_time is not None
    assert list(here.engine.monitors.readers.values()) == []


def test_a_monitor_stays_notified_until_a_receive_however_long_it_takes(here, readers, monitor):
    readers.procedure = readers.stub
    messages(here)
    here.world.run_for(60)
    messages(here)
    here.world.run_for(600)
    assert monitor.state == "NOTIFIED" and readers.calls == 1
    # "If you change the procedure the monitor will not detect this change and launch again the procedure."
    readers.procedure = readers.receive_once
    here.world.run_for(600)
    assert monitor.state == "NOTIFIED" and readers.calls == 1


def test_a_receive_of_any_session_ends_notified(here, readers, monitor):
    readers.procedure = readers.stub
    messages(here, 2)
    here.world.run_for(1)
    assert here.receive(top=0) == [] and monitor.state == "RECEIVES_OCCURRING"


def test_the_time_of_the_latest_receive_that_came_back_empty(here, monitor):
    assert monitor.last_empty_rowset_time is None
    here.receive()
    assert monitor.last_empty_rowset_time == here.engine.scheduler.clock.utc_ns()


def test_switching_activation_off_and_on_recycles_the_monitor(here, readers):
    readers.procedure = readers.stub
    messages(here)
    here.world.run_for(1)
    readers.procedure = readers.receive_once
    here.activation(status=False)
    here.activation(status=True)
    here.world.run_for(1)
    assert here.queue.monitor.state == "INACTIVE" and here.queue.depth == 0


def test_one_more_reader_every_five_seconds_while_no_receive_comes_back_empty(here, readers, monitor):
    slow, states, seen = readers.slow(1), [], []

    def procedure(tx):
        states.append(monitor.state)
        yield from slow(tx)

    readers.procedure = procedure
    messages(here, 400)
    for _ in range(40):
        here.world.run_for(1)
        seen.append(len(here.engine.monitors.readers_of(here.queue)))
    # Reader n starts about 5 (n - 1) seconds after the first; eight need 35.
    assert [seen.index(n) for n in range(2, 9)] == pytest.approx([5, 10, 15, 20, 25, 30, 35], abs=1)
    assert max(seen) == 8 and states[0] == "NOTIFIED" and set(states[1:]) == {"RECEIVES_OCCURRING"}
    assert here.engine.counters.tasks_started == 8 and here.engine.counters.tasks_running == 8
    assert here.engine.counters.task_limit_reached >= 1
    here.world.run_for(120)
    assert here.queue.depth == 0 and here.engine.monitors.readers_of(here.queue) == [] and monitor.state == "INACTIVE"


def test_an_empty_receive_resets_the_timer(here, readers, monitor):
    readers.procedure = readers.slow(1)
    messages(here, 60)

    def receive_empty_rowsets():
        """Report an empty rowset every four seconds."""
        for _ in range(6):
            yield Delay(4 * SECOND)
            monitor.receive_came_back_empty()

    here.spawn(receive_empty_rowsets())
    here.world.run_for(25)
    assert len(readers.started) == 1
    here.world.run_for(5)
    assert len(readers.started) == 2


def test_no_reader_is_added_while_a_session_waits_in_a_receive_without_where(here, readers, monitor):
    """One long conversation: the second reader waits because the group is locked, and no third one starts."""
    readers.procedure = readers.slow(1, wait=True, timeout_ms=60_000)
    handle = here.begin()
    for _ in range(100):
        here.send(handle)
    here.send(here.begin())  # with two groups a second reader starts, which then finds the first group locked
    here.world.run_for(60)
    assert len(readers.started) <= 2


def test_a_new_message_on_an_empty_queue_does_not_launch_while_a_procedure_runs(here, readers, monitor):
    readers.procedure = readers.slow(3, wait=True, timeout_ms=10_000)
    messages(here)
    here.world.run_for(1)
    messages(here)
    here.world.run_for(1)
    assert len(readers.started) == 1 and monitor.state == "RECEIVES_OCCURRING"
    here.world.run_for(4)
    assert len(readers.started) == 1 and here.queue.depth == 0
    assert monitor.tasks_waiting == 1 and monitor.state == "INACTIVE"


def test_the_task_calls_the_procedure_again_as_long_as_it_received_rows(here, readers):
    here.activation(status=False)
    messages(here, 5)
    here.activation(status=True)
    here.world.run_for(1)
    assert len(readers.started) == 1 and readers.calls == 6 and here.queue.depth == 0
    assert here.engine.counters.procedures_invoked == 6


def test_no_more_readers_than_max_queue_readers_run(here, readers):
    here.activation(max_queue_readers=2)
    readers.procedure = readers.slow(1)
    messages(here, 100)
    here.world.run_for(30)
    assert len(here.engine.monitors.readers_of(here.queue)) == 2
    here.activation(max_queue_readers=3)  # "raising takes effect at once", at the next threshold
    here.world.run_for(6)
    assert len(here.engine.monitors.readers_of(here.queue)) == 3


def test_a_rolled_back_receive_launches_a_reader(here, readers, monitor):
    here.activation(status=False)
    messages(here)
    here.activation(status=True)
    here.world.run_for(0.1)
    assert here.queue.depth == 0
    tx = here.engine.transactions.begin()
    here.activation(status=False)
    messages(here)
    here.receive(tx)
    here.activation(status=True)
    here.world.run_for(1)
    started = len(readers.started)
    tx.rollback()
    here.world.run_for(1)
    assert len(readers.started) == started + 1 and here.queue.depth == 0


def missing(database, queue):
    raise SqlServerError(2812, "dbo.reader")
    yield


@pytest.mark.parametrize("received", [1, 2])
def test_a_missing_procedure_is_tried_again_though_others_receive_meanwhile(here, readers, monitor, received):
    here.engine.monitors.activate = missing
    messages(here, 2)
    here.world.run_for(1)
    for _ in range(received):
        here.receive(top=1)
    here.engine.monitors.activate = readers.run
    here.world.run_for(4.5)
    assert here.queue.depth == 0 and monitor.state == "INACTIVE"


def test_a_missing_procedure_is_tried_again_every_five_seconds(here, readers, monitor):
    here.engine.monitors.activate = missing
    messages(here)
    here.world.run_for(11)
    assert here.engine.counters.tasks_aborted == 3 and "Could not find" in here.engine.error_log.lines[-1]
    here.engine.monitors.activate = readers.run
    here.world.run_for(5)
    assert here.queue.depth == 0


@pytest.mark.parametrize("number", [9614, 15517])
def test_a_procedure_that_cannot_start_is_tried_again_every_five_seconds(here, readers, number):
    def not_launched(database, queue):
        raise SqlServerError(number, "dbo.reader")
        yield

    here.engine.monitors.activate = not_launched
    messages(here)
    here.world.run_for(11)
    assert here.engine.counters.tasks_aborted == 3


def test_a_procedure_that_rolls_back_five_times_disables_its_queue(here, readers):
    def poisoned(tx):
        yield from here.engine.receiving.receive(tx, here.db, here.queue, top=1)
        raise SqlServerError(208, "nothing")

    readers.procedure = poisoned
    messages(here)
    here.world.run_for(5)
    assert readers.calls == 5 and not here.queue.is_receive_enabled and here.queue.monitor is None
    assert "disabled" in here.engine.error_log.lines[-1] or any(
        "disabled" in line for line in here.engine.error_log.lines
    )


def test_readers_of_a_previous_monitor_count_towards_the_maximum(here, readers):
    readers.procedure = readers.slow(20)
    messages(here, 3)
    here.world.run_for(1)
    here.activation(status=False)
    here.activation(status=True, max_queue_readers=1)
    here.world.run_for(10)
    assert len(readers.started) == 1


@pytest.fixture
def notified(here):
    """The queue's event notification goes to the queue `events`."""
    here.ddl(lambda tx: ddl_services.create_queue(tx, here.db.catalog, "dbo", "events", _options()))
    here.ddl(
        lambda tx: ddl_services.create_service(
            tx, here.db.catalog, "listener", queue="dbo.events", contracts=[system_objects.POST_EVENT_NOTIFICATION]
        )
    )
    here.ddl(
        lambda tx: ddl_services.create_event_notification(
            tx,
            here.db.catalog,
            "notify",
            watched=here.db.catalog.queues["dbo.q"],
            events=["QUEUE_ACTIVATION"],
            service="listener",
        )
    )


def test_external_activation_sends_one_notification_until_somebody_receives(here, notified):
    messages(here)
    here.world.run_for(20)
    messages(here)
    here.world.run_for(20)
    rows = here.receive(queue="dbo.events")
    assert kinds(rows) == ["EventNotification"] and here.queue.monitor.state == "NOTIFIED"
    text = rows[0].message_body.decode("utf-16-le")
    assert "<EventType>QUEUE_ACTIVATION</EventType>" in text and "<ObjectName>q</ObjectName>" in text
    here.receive_all()
    messages(here)
    here.world.run_for(1)
    assert len(here.receive(queue="dbo.events")) == 1
    with pytest.raises(SqlServerError, match="Event notification"):
        here.activation(procedure=PROCEDURE, max_queue_readers=1)


def test_a_notification_that_nobody_follows_is_sent_again_after_each_time_out(here, notified):
    """ "Once an application calls RECEIVE on the queue or the time-out expires, Service Broker creates another event
    notification if activation is required." """
    timeout_s = NOTIFICATION_TIMEOUT_NS // SECOND
    messages(here)
    here.world.run_for(timeout_s - 1)
    assert len(here.receive(queue="dbo.events")) == 1
    for _ in range(2):
        here.world.run_for(timeout_s)
        assert len(here.receive(queue="dbo.events")) == 1 and here.queue.monitor.state == "NOTIFIED"


def test_a_time_out_of_an_empty_queue_sends_nothing_and_the_next_message_is_notified_at_once(here, notified):
    messages(here)
    here.world.run_for(1)
    here.receive(queue="dbo.events")
    [target] = [one for one in here.db.endpoints if here.endpoint(one).incoming.ready]
    here.end(target, cleanup=True)
    here.world.run_for(2 * NOTIFICATION_TIMEOUT_NS // SECOND)
    assert here.receive(queue="dbo.events") == [] and here.queue.monitor.state == "INACTIVE"
    messages(here)
    here.world.run_for(1)
    assert len(here.receive(queue="dbo.events")) == 1


def test_a_notification_that_does_not_reach_the_disk_is_sent_when_there_is_room_again(here, notified):
    messages(here)
    here.store.is_full = True  # from after the message's commit on
    here.world.run_for(5)
    assert here.engine.error_log.lines
    here.store.is_full = False
    here.world.run_for(2)
    assert kinds(here.receive(queue="dbo.events")) == ["EventNotification"]


def test_a_receive_ends_the_time_out(here, notified):
    messages(here)
    here.world.run_for(NOTIFICATION_TIMEOUT_NS // SECOND - 10)
    here.receive_all()
    messages(here)
    here.world.run_for(20)
    assert len(here.receive(queue="dbo.events")) == 2 and here.queue.monitor.state == "NOTIFIED"


def test_a_queue_with_zero_readers_activates_nothing_until_it_has_more(here, readers):
    """CREATE QUEUE: "the value of max_readers must be a number between 0 and 32767"; scripts stop activation with 0."""
    here.activation(max_queue_readers=0)
    messages(here)
    here.world.run_for(20)
    assert readers.calls == 0 and len(here.queue.rows) == 1
    here.activation(max_queue_readers=1)
    here.world.run_for(20)
    assert readers.calls > 0 and not here.queue.rows


def _options() -> QueueOptions:
    return QueueOptions()
