"""Durations and sizes as users write them, and counts as they read them."""

import pytest

from harness.definitions.units import counted


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 ghost records"), (1, "1 ghost record"), (2, "2 ghost records"), (12000, "12,000 ghost records")],
)
def test_one_thing_is_in_the_singular(number: int, words: str) -> None:
    assert counted(number, "ghost record") == words
