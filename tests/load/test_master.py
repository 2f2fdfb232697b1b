"""Locust's distribution of users over workers."""

from types import SimpleNamespace

from harness.load.locust_process import TestClient
from harness.load.master import InitiatorDispatcher


def nodes(*names):
    return [SimpleNamespace(id=name) for name in names]


def dealt(dispatcher, users):
    dispatcher.new_dispatch(users, spawn_rate=users)
    return list(dispatcher)


def test_only_the_cells_initiators_get_users_and_all_at_once():
    assignment = {"a": 50, "b": 50}
    dispatcher = InitiatorDispatcher(nodes("a", "b", "c"), [TestClient], assignment=lambda: assignment)
    assert dealt(dispatcher, 100) == [{"a": {"TestClient": 50}, "b": {"TestClient": 50}, "c": {"TestClient": 0}}]


def test_the_next_cell_may_have_more_workers_and_other_counts():
    assignment = [{"a": 1}]
    dispatcher = InitiatorDispatcher(nodes("a"), [TestClient], assignment=lambda: assignment[-1])
    assert dealt(dispatcher, 1) == [{"a": {"TestClient": 1}}]
    dispatcher.add_worker(*nodes("b"))
    assignment.append({"a": 20, "b": 20})
    assert dealt(dispatcher, 40) == [{"a": {"TestClient": 20}, "b": {"TestClient": 20}}]
    dispatcher.remove_worker(*nodes("b"))
    assignment.append({"a": 3})
    assert dealt(dispatcher, 3) == [{"a": {"TestClient": 3}}]
