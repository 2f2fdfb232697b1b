"""Which cases of a test `make test` runs: one of each kind. The others are marked `thorough` and left to `make test-all`."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def one_of_each(cases: Iterable[Any], kind: Callable[[Any], object] = lambda case: None) -> list[Any]:
    """Parameters of a test: the first case of each kind is run by `make test`, the others by `make test-all` alone.

    A case is one value, or a tuple of several. Without `kind` the first case stands for all.
    """
    seen = set()
    parameters = []
    for case in cases:
        marks = [pytest.mark.thorough] if kind(case) in seen else []
        seen.add(kind(case))
        parameters.append(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks))
    return parameters
