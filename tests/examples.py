"""How many examples a property takes that says so itself: all of them, but for `make check` and `make test`."""

from hypothesis import settings

FULL = 100  # hypothesis' own number


def share(count: int) -> int:
    """The number of examples for the profile in use (`tests/conftest.py`): the usual one has a hundred."""
    return max(1, count * settings.default.max_examples // FULL)
