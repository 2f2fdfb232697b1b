"""The Locust master process: `python -m harness.load.master`, started by `locust_clients`, which it answers on a pipe.

With `--web-port` it also serves Locust's web interface (`web`).
"""

from __future__ import annotations

import locust  # isort: skip  before anything else: it patches the standard library for gevent

import argparse
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gevent
from locust.dispatch import UsersDispatcher
from locust.env import Environment
from locust.log import setup_logging
from locust.runners import STATE_MISSING

from harness.load.locust_process import Pipe, TestClient
from harness.load.messages import Answer, Done, Listen, Listening, Message, StartUsers

WORKER_TIMEOUT_S = 30.0  # for a worker process to appear on a busy machine


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


class Master:
    """Locust's master runner, with users only on the workers that take part in a cell."""

    def __init__(self, environment: Any) -> None:
        self._workers: Sequence[str] = ()
        self._threads = 0
        environment.dispatcher_class = functools.partial(
            InitiatorDispatcher, assignment=lambda: (self._workers, self._threads)
        )
        self.runner = environment.create_master_runner("127.0.0.1", 0)

    def listen(self, _: Listen) -> Listening:
        return Listening(self.runner.server.port)

    def start_users(self, order: StartUsers) -> Done:
        self.assign(order.workers, order.threads)
        self.runner.stats.clear_all()
        # Locust's own start returns when the workers have reported the users.
        self.runner.start(self.users, spawn_rate=self.users)
        return Done()

    def assign(self, workers: Sequence[str], threads: int) -> None:
        """Sets which workers take part from now on, and with how many users each."""
        with gevent.Timeout(WORKER_TIMEOUT_S, RuntimeError("a worker did not connect to the master")):
            while not all(self._is_connected(worker) for worker in workers):
                gevent.sleep(0.01)
        self._workers, self._threads = workers, threads

    def forget(self, worker: str) -> None:
        """Forgets a worker that has died. Locust itself would wait for it for a minute."""
        self._workers = [other for other in self._workers if other != worker]
        self.runner.clients.pop(worker, None)

    def _is_connected(self, worker: str) -> bool:
        node = self.runner.clients.get(worker)
        return node is not None and node.state != STATE_MISSING

    @property
    def users(self) -> int:
        return self._threads * len(self._workers)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--web-port", type=int)
    parser.add_argument("--lab", default="lab", help="what the web page says it loads")
    parser.add_argument("--initiators-max", type=int, help="how many the lab of the web page has")
    parser.add_argument("--rate", default="", help="default of the web page's field")
    parser.add_argument("--payload-bytes", default="100", help="the same")
    options = parser.parse_args()
    setup_logging("WARNING")  # type: ignore[no-untyped-call]
    pipe = Pipe()
    environment = Environment(user_classes=[TestClient], events=locust.events)
    master = Master(environment)
    handlers: dict[type[Message], Callable[[Any], Answer | None]] = {
        Listen: master.listen,
        StartUsers: master.start_users,
    }
    if options.web_port is not None:
        from harness.load.web import WebInterface  # noqa: PLC0415  only `harness ui` needs it

        handlers |= WebInterface(
            environment,
            master,
            pipe,
            options.web_port,
            lab=options.lab,
            initiators_max=options.initiators_max,
            defaults={"rate": options.rate, "payload_bytes": options.payload_bytes},
        ).handlers
    pipe.serve(handlers)


if __name__ == "__main__":
    main()
