"""Bugs planted in the broker: the checkers see each of them from outside."""

from typing import Any

import pytest

from harness.embedded.broker import arrival, delivery, monitors, queues, recovery, transmission
from harness.embedded.runtime.tasks import SECOND
from harness.simulation.faults.fault_plan import Fault, Kind, PlannedClient, Receiver
from harness.simulation.faults.fault_scenario import ScenarioRun
from tests.simulation.faults.conftest import CLIENTS

pytestmark = pytest.mark.process

# While a link is slow, more than one message of a dialog is under way.
SLOW = Fault(Kind.SLOW, 0.5, 8.0, "initiator-1", 3.0)


def test_without_a_planted_bug_all_checks_hold(carry_out) -> None:
    story = carry_out(SLOW)
    assert story.outcome.violations == [] and story.outcome.stored == 24


def drop() -> None:
    """Acknowledged and thrown away."""
    accept = arrival.Acceptance._accept

    def forgetful(self: Any, batch: Any, receiver: Any, frame: Any) -> None:
        if frame.sequence != 5:
            accept(self, batch, receiver, frame)
            return
        receiver.receive_sequence += 1
        batch.acknowledge[receiver] = None

    arrival.Acceptance._accept = forgetful  # type: ignore[method-assign]


def duplicate() -> None:
    """A message comes into the queue twice."""
    enqueue = delivery.Delivery.enqueue

    def twice(self: Any, tx: Any, endpoint: Any, message_type: Any, sequence: int, body: Any) -> None:  # noqa: PLR0917
        enqueue(self, tx, endpoint, message_type, sequence, body)
        if sequence == 5:
            enqueue(self, tx, endpoint, message_type, sequence, body)

    delivery.Delivery.enqueue = twice  # type: ignore[method-assign]


def reorder() -> None:
    """The newest message first."""
    publish = queues.Queue.publish

    def first(self: Any, row: Any) -> None:
        publish(self, row)
        if len(row.incoming.ready) > 1:
            row.incoming.ready.rotate(1)

    queues.Queue.publish = first  # type: ignore[method-assign]


def two_readers() -> None:
    """The lock of a conversation group keeps nobody out."""
    queues.ConversationGroup.try_acquire = lambda self, owner: True  # type: ignore[method-assign]
    take_all = queues.Queue.take

    def take(self: Any, incoming: Any, limit: int) -> Any:
        taken = take_all(self, incoming, limit)
        if incoming.ready:
            incoming.group.heap_entry = None
            self.offer(incoming.group)
        return taken

    queues.Queue.take = take  # type: ignore[method-assign]


def never_acknowledged() -> None:
    """Rows stay in the transmission queue for good."""
    transmission.Transmitter.acknowledged = lambda *_: None  # type: ignore[method-assign]


def storm() -> None:
    """The schedule of retries is forgotten."""
    transmission.RETRY_DELAYS_NS = (SECOND // 10,) * 5  # type: ignore[assignment]


def forgetful_recovery() -> None:
    """Recovery does not read back messages that wait for transmission."""
    of_endpoints = recovery.rows_of_endpoints

    def some(database: Any, tables: Any, asides: Any, table: str, *types: Any) -> Any:
        return iter(()) if table == database.xmit_table else of_endpoints(database, tables, asides, table, *types)

    recovery.rows_of_endpoints = some


def poison_is_not_noticed() -> None:
    monitors.POISON_ROLLBACKS = 10**9


def end_conversation_leaves_the_targets_endpoint() -> None:
    close = delivery.Delivery.close

    def close_initiators(self: Any, tx: Any, endpoint: Any) -> None:
        if endpoint.terms.is_initiator:
            close(self, tx, endpoint)

    delivery.Delivery.close = close_initiators  # type: ignore[method-assign]


ONE_BY_ONE = {"receiver": Receiver(is_the_labs=False, top=1, hold_s=0.3, readers=4)}
FEW_NEW_DIALOGS = {"clients": (CLIENTS[0], PlannedClient(1, 2, 4, 0.8, 100, True))}
POISON = Fault(Kind.POISON, 0.0, 0.0, "initiator-1")
# Something waits at the initiator as it dies.
KILLED_WHILE_CUT_OFF = (Fault(Kind.KILLED, 3.0, 0.5, "initiator-1"), Fault(Kind.CUT, 0.0, 6.0, "initiator-1"))


@pytest.mark.parametrize(
    "bug, checkers, faults, options",
    [
        (drop, ("nothing lost",), (SLOW,), {}),
        (duplicate, ("exactly once",), (SLOW,), {}),
        (reorder, ("in order",), (SLOW,), ONE_BY_ONE),
        (two_readers, ("one reader a group",), (SLOW,), ONE_BY_ONE),
        (never_acknowledged, ("queues drain", "no endless retry"), (SLOW,), {}),
        (storm, ("no endless retry",), (SLOW,), {}),
        (forgetful_recovery, ("nothing lost",), KILLED_WHILE_CUT_OFF, {}),
        (poison_is_not_noticed, ("nothing lost", "no endless retry"), (POISON,), {}),
        (end_conversation_leaves_the_targets_endpoint, ("queues drain",), (SLOW,), FEW_NEW_DIALOGS),
    ],
)
def test_a_planted_bug_is_found(carry_out, bug, checkers: tuple[str, ...], faults: tuple[Fault, ...], options) -> None:
    violations = carry_out(*faults, meddle=bug, **options).outcome.violations
    assert {text.partition(":")[0] for text in violations} >= set(checkers), violations


def broken(*_: Any) -> None:
    raise ValueError("planted")


def a_task_breaks() -> None:
    arrival.Acceptance._accept = broken  # type: ignore[method-assign]


def the_collecting_breaks() -> None:
    ScenarioRun._collect = broken  # type: ignore[method-assign]


@pytest.mark.parametrize("bug", [a_task_breaks, the_collecting_breaks])
def test_an_aborted_run_reports_only_its_error(carry_out, bug) -> None:
    [violation] = carry_out(SLOW, meddle=bug).outcome.violations
    assert violation.startswith("aborted by ") and "ValueError" in violation and "planted" in violation
