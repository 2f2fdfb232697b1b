"""Each checker by itself: it accepts correct evidence and reports violations."""

from dataclasses import replace

import pytest

from harness.embedded.runtime.tasks import SECOND
from harness.simulation.faults import checkers
from harness.simulation.faults.checkers import Call, CallOutcome, Evidence, Message, Reading, Sent, Stored

GROUP, OTHER = "group", "other group"


def message(sequence: int, thread: int = 1) -> Message:
    return Message(1, thread, sequence)


def call(sequence: int, outcome: CallOutcome = CallOutcome.COMMITTED, **options: bool) -> Call:
    return Call(message(sequence), outcome, sequence * SECOND, **options)


def right() -> Evidence:
    """Four messages, one cut off and gone, one poison; nothing wrong."""
    return Evidence(
        calls=[call(0), call(1, CallOutcome.CUT_OFF), call(2), call(3, is_poison=True)],
        stored=[Stored(message(0)), Stored(message(2)), Stored(message(3), set_aside=True)],
        readings=[Reading(GROUP, 11, 0, 10), Reading(OTHER, 12, 5, 15), Reading(GROUP, 12, 10, 20)],
        sent=[Sent(at_s * SECOND, "initiator-1", 1, "dialog", 0) for at_s in (0, 4, 12)],
    )


def test_correct_evidence_has_no_violation() -> None:
    assert checkers.violations(right()) == []


def test_a_message_that_was_cut_off_may_have_arrived_once() -> None:
    evidence = right()
    evidence.stored.insert(1, Stored(message(1)))
    assert checkers.violations(evidence) == []


def lost(evidence: Evidence) -> None:
    evidence.stored.pop(0)


def stored_twice(evidence: Evidence) -> None:
    evidence.stored.append(Stored(message(2)))


def cut_off_and_stored_twice(evidence: Evidence) -> None:
    evidence.stored[1:1] = [Stored(message(1)), Stored(message(1))]


def never_sent(evidence: Evidence) -> None:
    evidence.stored.append(Stored(message(9)))


def refused_and_stored(evidence: Evidence) -> None:
    evidence.calls[0] = replace(evidence.calls[0], outcome=CallOutcome.REFUSED, error="error 1")


def poison_processed(evidence: Evidence) -> None:
    evidence.stored[2] = Stored(message(3))


def set_aside_without_a_reason(evidence: Evidence) -> None:
    evidence.stored[1] = Stored(message(2), set_aside=True)


def out_of_order(evidence: Evidence) -> None:
    evidence.stored.reverse()


def two_readers(evidence: Evidence) -> None:
    evidence.readings.append(Reading(GROUP, 13, 12, 14))


def one_reader_inside_another(evidence: Evidence) -> None:
    evidence.readings += [Reading("third", 1, 0, 100), Reading("third", 2, 5, 6), Reading("third", 3, 50, 60)]


def left_over(evidence: Evidence) -> None:
    evidence.left.append("1 messages in the target's queue")


def error_noted(evidence: Evidence) -> None:
    evidence.noted.append("the target's error table: rolled back")


def storm(evidence: Evidence) -> None:
    evidence.sent += [Sent(13 * SECOND + at_ms, "initiator-1", 1, "dialog", 0) for at_ms in range(3)]


def unrest(evidence: Evidence) -> None:
    evidence.unrest.append("the activation procedure ran 3 times")


@pytest.mark.parametrize(
    "spoil, checker",
    [
        (lost, "nothing lost"),
        (stored_twice, "exactly once"),
        (cut_off_and_stored_twice, "exactly once"),
        (never_sent, "exactly once"),
        (refused_and_stored, "exactly once"),
        (poison_processed, "exactly once"),
        (set_aside_without_a_reason, "exactly once"),
        (out_of_order, "in order"),
        (two_readers, "one reader a group"),
        (one_reader_inside_another, "one reader a group"),
        (left_over, "queues drain"),
        (error_noted, "queues drain"),
        (storm, "no endless retry"),
        (unrest, "no endless retry"),
        (refused_and_stored, "all served"),
    ],
)
def test_a_checker_says_what_is_wrong(spoil, checker: str) -> None:
    evidence = right()
    spoil(evidence)
    assert any(text.startswith(f"{checker}: ") for text in checkers.violations(evidence))


def test_dialogs_of_one_message_each_have_no_order() -> None:
    calls = [replace(call(sequence), on_new_dialog=True) for sequence in (0, 1)]
    assert checkers.violations(Evidence(calls=calls, stored=[Stored(message(1)), Stored(message(0))])) == []


def test_a_new_connection_is_a_reason_to_send_again() -> None:
    evidence = right()
    storm(evidence)
    evidence.reconnections = 3
    assert checkers.violations(evidence) == []


def test_a_restarted_instance_may_send_again_at_once() -> None:
    sent = [Sent(at_ns, "initiator-1", start, "dialog", 0) for start, at_ns in enumerate(range(10))]
    assert checkers.violations(Evidence(sent=sent)) == []
