"""How Locust deals users out to workers: the same number to each initiator's worker, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from locust.dispatch import UsersDispatcher

# Of a cell: the worker of each initiator that takes part, and the threads for each.
Assignment = Callable[[], tuple[Mapping[int, str], int]]


class InitiatorDispatcher(UsersDispatcher):
    """Locust's default ramps up and deals round robin over all workers; a cell uses the first n initiators only.

    A worker that does not take part is told to run none. Rebalancing is not wanted: a cell whose worker is lost is a
    failed cell.
    """

    def __init__(self, worker_nodes: list[Any], user_classes: list[type[Any]], *, assignment: Assignment) -> None:
        self._nodes = {node.id: node for node in worker_nodes}
        self._class_names = [user_class.__name__ for user_class in user_classes]
        self._assignment = assignment
        self._iterations: Iterator[dict[str, dict[str, int]]] = iter(())

    @property
    def dispatch_in_progress(self) -> bool:
        """Locust calls `start` by itself when a worker comes or goes between dispatches. Here only a cell does."""
        return True

    def new_dispatch(
        self, target_user_count: int, spawn_rate: float, user_classes: list[type[Any]] | None = None
    ) -> None:
        workers, threads = self._assignment()
        assert target_user_count == threads * len(workers)
        taking_part = set(workers.values())
        assert taking_part <= self._nodes.keys()
        users = {
            node_id: dict.fromkeys(self._class_names, threads if node_id in taking_part else 0)
            for node_id in self._nodes
        }
        self._iterations = iter([users])

    def __next__(self) -> dict[str, dict[str, int]]:
        return next(self._iterations)

    def add_worker(self, worker_node: Any) -> None:
        self._nodes[worker_node.id] = worker_node

    def remove_worker(self, worker_node: Any) -> None:
        self._nodes.pop(worker_node.id, None)
