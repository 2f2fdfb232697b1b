from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sweep import accounting
from harness.sweep.accounting import DialogBooks, balance


def stored(sequences: list[int]) -> DialogBooks:
    """The books of a dialog whose messages were stored in this order."""
    misordered = sum(after < before for before, after in itertools.pairwise(sequences))
    return DialogBooks(len(sequences), len(set(sequences)), min(sequences), max(sequences), misordered)


CASES = [
    ([0, 1, 2], 3, (0, 0, 0, 0)),
    ([0, 2], 3, (1, 0, 0, 0)),
    ([0, 1], 3, (1, 0, 0, 0)),
    ([0, 1, 1, 2], 3, (0, 1, 0, 0)),
    ([0, 2, 1], 3, (0, 0, 1, 0)),
    ([0, 1, 2, 3], 3, (0, 0, 0, 1)),
]


@pytest.mark.parametrize("sequences, sent, expected", CASES)
def test_every_kind_of_imbalance_has_its_name(
    sequences: list[int], sent: int, expected: tuple[int, int, int, int]
) -> None:
    books = balance({(1, 1): sent}, {(1, 1): stored(sequences)})
    assert (books.lost, books.duplicated, books.misordered, books.strangers) == expected
    assert books.balance is (expected == (0, 0, 0, 0))


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(0, 9))))
def test_books_are_kept_by_dialog_in_the_order_of_storing(rows: list[tuple[int, int, int]]) -> None:
    columns = zip(*rows, strict=True) if rows else ((), (), ())
    books = accounting.stored(dict(zip(("initiator", "thread", "sequence"), columns, strict=True)))
    assert books == {
        dialog: stored([sequence for *of, sequence in rows if tuple(of) == dialog])
        for dialog in {row[:2] for row in rows}
    }


@given(st.dictionaries(st.tuples(st.integers(1, 3), st.integers(1, 50)), st.integers(1, 100)))
def test_books_of_a_faultless_cell_balance(sent: dict[tuple[int, int], int]) -> None:
    books = balance(sent, {key: stored(list(range(count))) for key, count in sent.items()})
    assert books.balance
    assert books.reason() == ""
    assert books.sent == books.processed == sum(sent.values())


def test_a_dialog_of_which_nothing_arrived_is_lost() -> None:
    books = balance({(1, 1): 5, (1, 2): 5}, {(1, 1): stored([0, 1, 2, 3, 4])})
    assert books.lost == 5
    assert books.reason() == (
        "the books do not balance: 5 lost of 10 messages (initiator 1 thread 2: 5 committed, 0 stored, numbers 0 to 0)"
    )


def test_a_dialog_that_no_client_used_is_a_stranger() -> None:
    assert balance({}, {(2, 7): stored([0, 1])}).strangers == 2
