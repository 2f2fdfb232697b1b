import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.run import accounting
from harness.run.accounting import Stored, compare


def stored(sequences: list[int]) -> Stored:
    """A client's messages, stored in this order."""
    misordered = sum(after < before for before, after in itertools.pairwise(sequences))
    return Stored(len(sequences), len(set(sequences)), min(sequences), max(sequences), misordered)


CASES = [
    ([0, 1, 2], 3, (0, 0, 0, 0)),
    ([0, 2], 3, (1, 0, 0, 0)),
    ([0, 1], 3, (1, 0, 0, 0)),
    ([0, 1, 1, 2], 3, (0, 1, 0, 0)),
    ([0, 2, 1], 3, (0, 0, 1, 0)),
    ([0, 1, 2, 3], 3, (0, 0, 0, 1)),
]


@pytest.mark.parametrize("sequences, sent, expected", CASES)
def test_every_kind_of_difference_has_its_name(
    sequences: list[int], sent: int, expected: tuple[int, int, int, int]
) -> None:
    found = compare({(1, 1): sent}, {(1, 1): stored(sequences)})
    assert (found.lost, found.duplicated, found.misordered, found.unknown) == expected
    assert found.is_exact is (expected == (0, 0, 0, 0))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 9))))
def test_messages_are_counted_by_client_in_the_order_of_storing(rows: list[tuple[int, int, int]]) -> None:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    found = accounting.stored_by_client(dict(zip(("initiator", "thread", "sequence"), columns, strict=True)))
    assert found == {
        dialog: stored([sequence for *of, sequence in rows if tuple(of) == dialog])
        for dialog in {row[:2] for row in rows}
    }


@given(st.dictionaries(st.tuples(st.integers(1, 3), st.integers(1, 50)), st.integers(1, 100)))
def test_a_faultless_cell_has_no_difference(sent: dict[tuple[int, int], int]) -> None:
    found = compare(sent, {key: stored(list(range(count))) for key, count in sent.items()})
    assert found.is_exact
    assert found.reason() == ""
    assert found.sent == found.processed == sum(sent.values())


def test_messages_of_a_dialog_of_which_nothing_arrived_are_lost() -> None:
    found = compare({(1, 1): 5, (1, 2): 5}, {(1, 1): stored([0, 1, 2, 3, 4])})
    assert found.lost == 5
    assert found.reason() == (
        "the accounting of 10 sent messages failed: 5 lost (initiator 1 thread 2: 5 committed, 0 stored, numbers 0 to 0)"
    )


def test_messages_that_no_client_sent_are_counted_apart() -> None:
    found = compare({}, {(2, 7): stored([0, 1])})
    assert found.unknown == 2
    assert found.reason().startswith("the accounting of 0 sent messages failed: 2 messages belong to no client (")
