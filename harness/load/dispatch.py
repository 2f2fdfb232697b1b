"""How Locust distributes users over workers: the same number to each initiator's worker, at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from locust.dispatch import UsersDispatcher

# Of a cell: Locust's ids of the workers that take part, and the threads of each.
Assignment = Callable[[], tuple[Sequence[str], int]]


class InitiatorDispatcher(UsersDispatcher):
    """Gives every worker of a cell its users at once, and no user to any other worker.

    Locust's default ramps up and distributes round robin over all workers. Nothing is rebalanced: a cell that loses a
    worker has failed.
    """

    def __init__(self, worker_nodes: list[Any], user_classes: list[type[Any]], *, assignment: Assignment) -> None:
        self._nodes = {node.id: node for node in worker_nodes}
        self._class_names = [user_class.__name__ for user_class in user_classes]
        self._assignment = assignment
        self._iterations: Iterator[dict[str, dict[str, int]]] = iter(())

    @property
    def dispatch_in_progress(self) -> bool:
        """True keeps Locust from calling `start` when a worker comes or goes: only a cell does."""
        return True

    def new_dispatch(
        self, target_user_count: int, spawn_rate: float, user_classes: list[type[Any]] | None = None
    ) -> None:
        workers, threads = self._assignment()
        assert target_user_count == threads * len(workers)
        assert set(workers) <= self._nodes.keys()
        users = {
            node_id: dict.fromkeys(self._class_names, threads if node_id in workers else 0) for node_id in self._nodes
        }
        self._iterations = iter([users])

    def __next__(self) -> dict[str, dict[str, int]]:
        return next(self._iterations)

    def add_worker(self, worker_node: Any) -> None:
        self._nodes[worker_node.id] = worker_node

    def remove_worker(self, worker_node: Any) -> None:
        self._nodes.pop(worker_node.id, None)
