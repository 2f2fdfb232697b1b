"""The Locust master process: `python -m harness.load.master`, started by `locust_clients`, which it answers on a pipe.

Its options are options of Locust's own parser, so that Locust, its listeners and its plugins find in `sys.argv` what
they know. Asked to, it also serves Locust's web interface (`web`).
"""

import locust  # isort: skip  before anything else: it patches the standard library for gevent

import functools
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import gevent
from locust import argument_parser, runners
from locust.dispatch import UsersDispatcher
from locust.env import Environment
from locust.log import setup_logging
from locust.runners import STATE_MISSING

from harness.load import sealed_sockets
from harness.load.locust_process import (
    JOIN,
    LINE,
    REFUSE,
    Handlers,
    Introduction,
    Pipe,
    TestClient,
    VisibleRecord,
    version,
)
from harness.load.messages import Dismiss, Done, Joined, Listen, Listening, Refused, ServePage, StartUsers, WorkerLost

logger = logging.getLogger("harness.load.master")

WORKER_TIMEOUT_S = 30.0  # for a worker process to appear on a busy machine
# Locust calls a worker missing after so many seconds without a heartbeat. Its 3 are too few on a busy machine.
SILENCE_MAX_S = 10
LOOK_EVERY_S = 0.2
LAST_WORDS_S = 0.2  # for messages to leave before the process ends


# Of a cell: Locust's ids of the workers that take part, each with its number of users.
Assignment = Callable[[], Mapping[str, int]]


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
        assigned = self._assignment()
        assert target_user_count == sum(assigned.values())
        assert assigned.keys() <= self._nodes.keys()
        users = {node_id: dict.fromkeys(self._class_names, assigned.get(node_id, 0)) for node_id in self._nodes}
        self._iterations = iter([users])

    def __next__(self) -> dict[str, dict[str, int]]:
        return next(self._iterations)

    def add_worker(self, worker_node: Any) -> None:
        self._nodes[worker_node.id] = worker_node

    def remove_worker(self, worker_node: Any) -> None:
        self._nodes.pop(worker_node.id, None)


class Master:
    """Locust's master runner, with users only on the workers that take part in a cell."""

    def __init__(self, environment: Any, pipe: Pipe, host: str, port: int) -> None:
        self._pipe = pipe
        self._assigned: Mapping[str, int] = {}
        self._joined: dict[str, Joined] = {}
        self._lost: set[str] = set()
        environment.dispatcher_class = functools.partial(InitiatorDispatcher, assignment=lambda: self._assigned)
        self.runner = environment.create_master_runner(host, port)
        self.runner.register_message(JOIN, self._on_join)
        self.runner.register_message(LINE, self._on_line)
        gevent.spawn(self._watch_workers)

    def listen(self, _: Listen) -> Listening:
        return Listening(self.runner.server.port)

    def start_users(self, order: StartUsers) -> Done:
        self.assign(order.users)
        self.runner.stats.clear_all()
        # Locust's own start returns when the workers have reported the users.
        self.runner.start(self.users, spawn_rate=self.users)
        return Done()

    def assign(self, users: Mapping[str, int]) -> None:
        """Set which workers take part from now on, and with how many users each."""
        with gevent.Timeout(WORKER_TIMEOUT_S, RuntimeError("a worker did not connect to the master")):
            while not all(self._is_there(worker) for worker in users):
                gevent.sleep(0.01)
        self._assigned = users

    def forget(self, worker: str) -> None:
        """Forget a worker that has died. Locust itself would wait for it for a minute."""
        self._assigned = {other: users for other, users in self._assigned.items() if other != worker}
        self.runner.clients.pop(worker, None)

    def dismiss(self, _: Dismiss) -> Done:
        """End all workers."""
        self.runner.send_message("quit")
        gevent.sleep(LAST_WORDS_S)
        return Done()

    def to_worker(self, worker: str, line: str) -> None:
        self.runner.send_message(LINE, line, worker)

    @property
    def users(self) -> int:
        return sum(self._assigned.values())

    def _on_join(self, msg: Any, **_: Any) -> None:
        introduction: Introduction = msg.data
        host, process, own_version = introduction["host"], introduction["process"], version()
        if introduction["version"] != own_version:
            reason = (
                f"the run has harness {own_version}, this worker {introduction['version']}: install the same on both"
            )
            self.runner.send_message(REFUSE, reason, msg.node_id)
            other = f"a worker on {host} was refused: its harness is {introduction['version']}, this one {own_version}"
            self._pipe.tell(Refused(other))
            return
        joined = self._joined[msg.node_id] = Joined(msg.node_id, host, process)
        logger.info("worker %s of %s has joined, process %d", msg.node_id, host, process)
        self._pipe.tell(joined)

    def _on_line(self, msg: Any, **_: Any) -> None:
        self._pipe.pass_on(msg.node_id, msg.data.encode())

    def _watch_workers(self) -> NoReturn:
        """Report a worker that is lost, and one that is back."""
        while True:
            gevent.sleep(LOOK_EVERY_S)
            for worker, joined in self._joined.items():
                if self._is_there(worker) == (worker not in self._lost):
                    continue
                if worker in self._lost:
                    self._lost.remove(worker)
                    self._pipe.tell(joined)
                else:
                    self._lost.add(worker)
                    silent = worker in self.runner.clients
                    how = f"has not been heard of for {SILENCE_MAX_S} s" if silent else "has left"
                    self._pipe.tell(WorkerLost(worker, how))

    def _is_there(self, worker: str) -> bool:
        node = self.runner.clients.get(worker)
        return node is not None and node.state != STATE_MISSING


def main() -> None:
    # Locust's files of settings are those of other locustfiles, whose options this process does not have.
    options = argument_parser.get_parser(default_config_files=[]).parse_args()
    logging.setLogRecordFactory(VisibleRecord)
    setup_logging("WARNING")  # type: ignore[no-untyped-call]
    runners.HEARTBEAT_LIVENESS = SILENCE_MAX_S
    pipe = Pipe()
    environment = Environment(user_classes=[TestClient], events=locust.events)
    sealed_sockets.install()
    master = Master(environment, pipe, options.master_bind_host, options.master_bind_port)
    handlers: Handlers = {Listen: master.listen, StartUsers: master.start_users, Dismiss: master.dismiss}

    def serve_page(page: ServePage) -> Done:
        from harness.load.pages.scenario import WebInterface  # noqa: PLC0415  only `harness ui` needs it

        logging.getLogger("harness").setLevel("INFO")  # for the page's tab Logs
        handlers.update(WebInterface(environment, master, pipe, page).handlers)
        return Done()

    handlers[ServePage] = serve_page
    pipe.serve(handlers, master.to_worker)


if __name__ == "__main__":
    main()
