"""Order of the suite: fast tests first, then Spark, whole processes, the browser."""

import pytest

_LATER = ("spark", "process", "browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        return max((_LATER.index(name) + 1 for name in _LATER if item.get_closest_marker(name)), default=0)

    items.sort(key=rank)  # stable: the order inside a rank stays
