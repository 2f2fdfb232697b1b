"""How many examples a property takes that says so itself: all of them, but for `make check`."""

from hypothesis import settings

FULL = 100  # hypothesis' own number


def share(count: int) -> int:
    """The number of examples for the profile in use: `few` has a fifth of the usual hundred."""
    return max(1, count * settings.default.max_examples // FULL)
