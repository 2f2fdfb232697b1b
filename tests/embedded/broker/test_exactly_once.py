"""Exactly once, in order, with a lossy network and crashes: a stateful test."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harness.embedded.broker.frames import MessageFrame
from harness.embedded.runtime.tasks import TaskState
from tests.embedded.broker.world import LATENCY_NS, M, World, handle_of, snapshot
from tests.examples import share

DIALOGS = 3
ENOUGH_S = 64 * 4  # for the slowest retry and those that follow it

# Repeating fates of frames: the latencies after which each copy arrives.
FATES = st.lists(st.sampled_from([(), (1,), (1,), (1, 1), (5,), (3, 40), (900,)]), min_size=1, max_size=8, unique=False)
SIDES = st.sampled_from(["initiator", "target"])


class ExactlyOnce(RuleBasedStateMachine):
    @initialize()
    def set_up(self):
        self.world = World()
        self.initiator, self.target = self.world.pair()
        self.dialogs = [self.world.dialog(self.initiator, self.target) for _ in range(DIALOGS)]
        self.counter = 0
        # By (conversation id, sent by the initiator): bodies committed, cut off and received.
        self.sent, self.cut_off, self.received = {}, set(), {}
        self.perhaps_received = set()

    def _key(self, instance, handle):
        return instance.endpoint(handle).terms.conversation_id, instance is self.initiator

    def _instance(self, side):
        return getattr(self, side)

    def _handles(self, instance):
        return [handle for handle in sorted(instance.db.endpoints) if instance.endpoint(handle).state.value in "SO CO"]

    def _send(self, instance, handle, cut_off_after_ms=None):
        self.counter += 1
        body = self.counter.to_bytes(4, "big")
        self.sent.setdefault(self._key(instance, handle), []).append(body)
        task = instance.spawn(
            instance.autocommit(lambda tx: instance.engine.dialogs.send(tx, instance.db, [handle], M, body))
        )
        if cut_off_after_ms is None:
            assert self.world.driver.run_until(lambda: task.state is TaskState.DONE)
            assert task.error is None
            return
        self.world.run_for(cut_off_after_ms / 1000)
        if task.state is not TaskState.DONE:
            self.cut_off.add(body)

    @rule(side=SIDES, dialog=st.integers(0, DIALOGS - 1))
    def send(self, side, dialog):
        instance = self._instance(side)
        handles = self._handles(instance)
        if handles:
            self._send(instance, handles[dialog % len(handles)])

    @rule(dialog=st.integers(0, DIALOGS - 1), count=st.integers(2, 8))
    def send_several(self, dialog, count):
        for _ in range(count):
            self._send(self.initiator, self.dialogs[dialog])

    @rule(side=SIDES, top=st.sampled_from([1, 2, None]), rolls_back=st.booleans())
    def receive(self, side, top, rolls_back):
        instance = self._instance(side)
        instance.queue.rollbacks = 0
        tx = instance.engine.transactions.begin()
        rows = instance.receive(tx, top=top)
        if rolls_back:
            tx.rollback()
            return
        instance.commit(tx)
        self._note(rows)

    def _note(self, rows):
        for row in rows:
            key = row.incoming.terms.conversation_id, not row.incoming.terms.is_initiator
            self.received.setdefault(key, []).append(row.message_body)

    @rule(fates=FATES)
    def network_becomes(self, fates):
        count = 0

        def deliveries(frame):
            nonlocal count
            count += 1
            return [latencies * LATENCY_NS for latencies in fates[count % len(fates)]]

        self.world.network.deliveries = deliveries

    @rule(seconds=st.sampled_from([0.001, 0.003, 0.05, 1, 5, 20, 70]))
    def time_passes(self, seconds):
        self.world.run_for(seconds)

    @rule(side=SIDES, after_ms=st.sampled_from([0, 0.5, 1.5, 2.5]), dialog=st.integers(0, DIALOGS - 1))
    def crash_while_sending(self, side, after_ms, dialog):
        instance = self._instance(side)
        handles = self._handles(instance)
        if handles:
            self._send(instance, handles[dialog % len(handles)], after_ms)
        instance.crash()

    @rule(after_ms=st.sampled_from([0, 0.5, 1.5]))
    def crash_while_receiving(self, after_ms):
        rows = []

        def receive():
            tx = self.target.engine.transactions.begin()
            rows.extend(
                (yield from self.target.engine.receiving.receive(tx, self.target.db, self.target.queue, top=None))
            )
            yield from tx.commit()

        task = self.target.spawn(receive())
        self.world.run_for(after_ms / 1000)
        if task.state is TaskState.DONE:
            self._note(rows)
        else:
            self.perhaps_received.update(row.message_body for row in rows)
        self.target.crash()

    @precondition(lambda self: hasattr(self, "received"))
    @invariant()
    def nothing_comes_twice_or_out_of_order(self):
        for key, received in self.received.items():
            assert received == sorted(set(received)), "twice, or out of order"
            assert set(received) <= set(self.sent[key]), "nobody sent that"

    def teardown(self):
        if not hasattr(self, "received"):
            return
        self.world.network.deliveries = lambda frame: [LATENCY_NS]
        self.world.run_for(ENOUGH_S)
        for instance in (self.initiator, self.target):
            instance.queue.rollbacks = 0
            self._note(instance.receive_all())
            assert not instance.db.transmission_queue, "acknowledged messages leave the transmission queue"
        self.nothing_comes_twice_or_out_of_order()
        excused = self.cut_off | self.perhaps_received
        for key, sent in self.sent.items():
            missing = set(sent) - set(self.received.get(key, [])) - excused
            assert not missing, "a committed message was lost"


TestExactlyOnce = ExactlyOnce.TestCase
TestExactlyOnce.settings = settings(
    max_examples=share(80), stateful_step_count=30, suppress_health_check=list(HealthCheck)
)


def test_a_crash_between_flush_and_acknowledgement_does_not_repeat_the_message(world, pair):
    initiator, target = pair
    world.network.deliveries = lambda frame: [LATENCY_NS] if isinstance(frame, MessageFrame) else []
    handle = world.dialog(initiator, target)
    initiator.send(handle, b"once")
    world.run_for(0.1)
    assert target.queue.depth == 1 and len(initiator.db.transmission_queue) == 1
    target.crash()
    initiator.crash()
    world.network.deliveries = lambda frame: [LATENCY_NS]
    world.run_for(10)
    assert target.queue.depth == 1 and not initiator.db.transmission_queue


def test_a_crash_keeps_everything_that_was_committed(world, pair):
    initiator, target = pair
    handle = world.dialog(initiator, target, lifetime_s=3600)
    initiator.send(handle, b"1")
    world.run_for(0.1)
    [row] = target.receive()
    target.send(handle_of(row), b"2")
    initiator.run(initiator.autocommit(lambda tx: initiator.engine.dialogs.begin_timer(tx, initiator.db, handle, 60)))
    world.run_for(0.1)
    world.network.deliveries = lambda frame: []
    initiator.send(handle, b"3")
    world.run_for(0.1)
    tx = initiator.engine.transactions.begin()
    initiator.send(handle, b"uncommitted", tx)
    tx.rollback()
    before = snapshot(initiator), snapshot(target)
    initiator.crash()
    target.crash()
    assert (snapshot(initiator), snapshot(target)) == before
    world.network.deliveries = lambda frame: [LATENCY_NS]
    world.run_for(10)
    assert [row.message_body for row in target.receive_all()] == [b"3"]
    world.run_for(60)
    assert len(initiator.receive()) == 2  # the timer and the answer
    world.run_for(3600)
    assert {endpoint.state.value for endpoint in initiator.db.endpoints.values()} == {"ER"}
