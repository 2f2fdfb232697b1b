"""One test for each fault: it happens, and all checks hold."""

from dataclasses import replace

import pytest

from harness.embedded.runtime.tasks import SECOND
from harness.simulation.faults import fault_plan
from harness.simulation.faults.checkers import CallOutcome
from harness.simulation.faults.fault_plan import Aim, Failure, Fault, Kind, PlannedClient, Receiver
from tests.simulation.faults.conftest import CLIENTS, RECEIVER, Story
from tests.thorough import one_of_each

pytestmark = pytest.mark.process

INITIATOR, TARGET = "initiator-1", "target"
LABS_OWN = replace(RECEIVER, is_the_labs=True)


def everything_holds(story: Story, stored: int = 24) -> None:
    assert story.outcome.violations == []
    assert story.outcome.stored == stored
    assert story.links_are_whole


@pytest.mark.parametrize("receiver", [RECEIVER, LABS_OWN], ids=["that notes", "the lab's"])
@pytest.mark.parametrize("aim, after_s", [(None, 0.0), (Aim.WIRE, 0.0), (Aim.WIRE, 0.002), (Aim.WIRE, 0.006)])
def test_a_target_that_is_killed_recovers_from_its_log(carry_out, aim, after_s: float, receiver: Receiver) -> None:
    kills = [Fault(Kind.KILLED, at_s, 0.5, TARGET, after_s, aim=aim) for at_s in (1.0, 3.0, 5.0)]
    story = carry_out(*kills, receiver=receiver)
    everything_holds(story)
    assert story.starts[TARGET] == 4
    assert story.sent_again or aim is not Aim.WIRE


@pytest.mark.parametrize("after_s", [0.0, 0.002, 0.004, 0.006])
def test_an_initiator_that_is_killed_recovers_from_its_log(carry_out, after_s: float) -> None:
    kills = [Fault(Kind.KILLED, at_s, 0.5, INITIATOR, after_s, aim=Aim.CALLS) for at_s in (1.0, 3.0, 5.0)]
    story = carry_out(*kills)
    outcomes = [call.outcome for call in story.evidence.calls]
    assert story.outcome.violations == []
    assert story.starts[INITIATOR] == 4
    assert outcomes.count(CallOutcome.CUT_OFF) >= (after_s < 0.004) and CallOutcome.REFUSED not in outcomes
    assert outcomes.count(CallOutcome.COMMITTED) <= story.outcome.stored <= 24


def test_a_kill_while_messages_travel_waits_for_those_of_its_instance(carry_out) -> None:
    clients = (PlannedClient(1, 1, 3, 1.0, 100, False), PlannedClient(2, 1, 12, 0.01, 100, False))
    story = carry_out(Fault(Kind.KILLED, 0.0, 0.5, INITIATOR, aim=Aim.WIRE), clients=clients)
    assert story.outcome.violations == []
    first, own = story.evidence.sent[0], next(sent for sent in story.evidence.sent if sent.instance == INITIATOR)
    assert first.instance == "initiator-2"
    assert f"{own.at_ns / SECOND:10.6f} s  {INITIATOR} is killed" in story.outcome.timeline


def test_a_call_that_was_cut_off_may_have_been_committed(carry_out) -> None:
    """Kill the instance at many moments, some of which lie between commit and answer."""
    kills = [Fault(Kind.KILLED, 0.0, 0.1, INITIATOR, at_ms / 10_000, aim=Aim.CALLS) for at_ms in range(0, 80, 4)]
    stories = [carry_out(kill, clients=CLIENTS[:1]) for kill in kills]
    assert all(not story.outcome.violations for story in stories)
    cut_off = [story for story in stories if story.outcome.calls.get("cut off")]
    assert {story.outcome.stored for story in cut_off} == {11, 12}


def test_a_link_is_cut_and_whole_again(carry_out) -> None:
    story = carry_out(Fault(Kind.CUT, 2.0, 20.0, INITIATOR))
    everything_holds(story)
    assert max(sent.at_ns for sent in story.evidence.sent) > 22 * SECOND


def test_a_link_is_slower_than_the_retry(carry_out) -> None:
    story = carry_out(Fault(Kind.SLOW, 1.0, 12.0, INITIATOR, 3.0))
    everything_holds(story)
    assert story.sent_again and story.dropped


def test_a_link_duplicates(carry_out) -> None:
    story = carry_out(Fault(Kind.DUPLICATING, 0.0, 15.0, INITIATOR, 0.9))
    everything_holds(story)
    assert story.dropped > 5 and not story.sent_again


def test_a_link_reorders(carry_out) -> None:
    burst = (PlannedClient(1, 1, 24, 0.001, 100, False),)
    story = carry_out(Fault(Kind.REORDERING, 0.0, 10.0, INITIATOR, 2.0), clients=burst)
    everything_holds(story)
    sent, read = story.evidence.sent[-1].at_ns, story.evidence.readings[-1].began_ns
    assert read - sent > SECOND, "what has overtaken others waits for them"


@pytest.mark.parametrize("where", [INITIATOR, TARGET])
def test_a_log_is_slow(carry_out, where: str) -> None:
    """500 times a flush of some milliseconds: the next call waits for the initiator's log, the first reader for the
    target's, which has yet to take the message in."""
    story = carry_out(Fault(Kind.SLOW_LOG, 0.0, 10.0, where, 500.0))
    everything_holds(story)
    first, second = [call.at_ns for call in story.evidence.calls if call.message.thread == 1][:2]
    assert (second - first > SECOND) == (where == INITIATOR)
    assert story.evidence.readings[0].began_ns > SECOND


def test_poison_disables_the_queue_until_an_operator_removes_it(carry_out) -> None:
    story = carry_out(Fault(Kind.POISON, 2.0, 0.0, INITIATOR))
    everything_holds(story)
    assert [row.message.thread for row in story.evidence.stored if row.set_aside] == [1]
    assert any("was disabled: 5 rollbacks in a row" in line for line in story.error_log)
    assert sum("operator: the queue is off" in line for line in story.outcome.timeline) == 1


def test_poison_while_the_operator_is_interrupted_by_a_crash(carry_out) -> None:
    kills = [Fault(Kind.KILLED, 4.0 + tenth / 100, 0.05, TARGET) for tenth in range(0, 40, 10)]
    story = carry_out(Fault(Kind.POISON, 0.0, 0.0, INITIATOR), *kills)
    everything_holds(story)
    assert sum(row.set_aside for row in story.evidence.stored) == 1


@pytest.mark.parametrize(
    "failure, trace",
    [
        (Failure.BEFORE, "fails before it receives"),
        (Failure.AFTER, "was disabled: 5 rollbacks in a row"),
        (Failure.MISSING, "Could not find stored procedure"),
    ],
)
def test_an_activation_procedure_fails(carry_out, failure: Failure, trace: str) -> None:
    clients = (PlannedClient(1, 1, 12, 2.0, 100, False), PlannedClient(1, 2, 12, 2.0, 100, True))
    story = carry_out(Fault(Kind.FAILING, 0.0, 20.0, TARGET, failure=failure), clients=clients)
    everything_holds(story)
    assert any(trace in line for line in story.error_log)
    assert min(reading.began_ns for reading in story.evidence.readings) > 20 * SECOND


def test_the_deployer_may_be_cut_off_after_dropping_the_procedure(carry_out) -> None:
    """From before the commit to after the answer, in steps that are shorter than the answer's way."""
    drop = Fault(Kind.FAILING, 1.0, 2.0, TARGET, failure=Failure.MISSING)
    kills = [Fault(Kind.KILLED, 1.0 + at_ms / 10_000, 0.1, TARGET) for at_ms in range(40, 80, 4)]
    stories = [carry_out(drop, kill, clients=CLIENTS[:1]) for kill in kills]
    cut_off = [any("cut off; again" in line for line in story.outcome.timeline) for story in stories]
    assert cut_off[0] and not cut_off[-1]
    for story in stories:
        everything_holds(story, stored=12)


@pytest.mark.parametrize("seed", one_of_each(range(2000, 2010), lambda seed: seed % 3))
def test_faults_of_all_kinds_together(carry_out, seed: int) -> None:
    assert carry_out(whole=fault_plan.make(seed)).outcome.violations == []


def test_every_kind_of_fault_occurs() -> None:
    plans = [fault_plan.make(seed) for seed in range(100)]
    assert {fault.kind for one in plans for fault in one.faults} == set(Kind)
