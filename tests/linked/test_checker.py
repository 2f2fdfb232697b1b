"""What the checker of linked processes finds in both ends of their dialogs."""

import pytest

from tests.linked.checker import End, Message, violations

SENT = [Message("d1", 1, 11), Message("d2", 1, 21), Message("d1", 2, 12)]
ANSWERS = [Message("d1", 2, 91)]
CHANGES = {
    "initiator to target, dialog d1: lost 2 of 2 messages": lambda here, there: there.received.pop(2),
    "initiator to target, dialog d2: never sent, or received again, 1 of 1": lambda here, there: there.received.append(
        SENT[1]
    ),
    "initiator to target, dialog d1: out of order 2, 1 of 2": lambda here, there: there.received.reverse(),
    "nobody to target, dialog d3: never sent": lambda here, there: there.received.append(Message("d3", 1, 31)),
    "target to initiator, dialog d1: lost 2": lambda here, there: here.received.clear(),
    "initiator: 1 messages whose COMMIT was confirmed were not sent: attempts [13]": lambda here, there: here.told[
        "sent"
    ].append(13),
    "target: 1 messages whose RECEIVE was confirmed were not received": lambda here, there: there.told[
        "received"
    ].append(13),
    "initiator: 1 messages that were rolled back were sent": lambda here, there: here.told["rolled_back"].append(11),
    "initiator: Error arrived": lambda here, there: here.problems.append("Error arrived"),
}


def both_ends():
    here = End("initiator", [*SENT], [*ANSWERS], {"sent": [11, 21], "rolled_back": [19], "received": [91]})
    there = End("target", [*ANSWERS], [*SENT], {"received": [12], "sent": [91]})
    return here, there


def test_dialogs_whose_ends_agree_break_nothing():
    here, there = both_ends()
    there.received[:2] = there.received[1::-1]  # dialogs have no order among each other
    assert violations(there, [here]) == []


@pytest.mark.parametrize("found", CHANGES)
def test_whatever_differs_is_found(found):
    here, there = both_ends()
    CHANGES[found](here, there)
    lines = violations(there, [here])
    assert lines[0].startswith(found)
