"""The Locust master process.

`python -m harness.load.master`, started by `clients`. It takes orders as lines of JSON on stdin, `{"id": 1, "do":
"prepare", ...}`, answers each with one line on stdout, `{"id": 1, ...}` or `{"id": 1, "error": "..."}`, and tells of
what happens in between with lines that have an "event". The end of stdin ends the process. With `--web-port` it also
serves Locust's web interface (`ui`).
"""

from __future__ import annotations

import locust  # isort: skip  before anything else: it patches the standard library for gevent

import argparse
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any

import gevent
from gevent.fileobject import FileObjectPosix
from locust.env import Environment
from locust.log import setup_logging
from locust.runners import STATE_MISSING

from harness.load.dispatch import InitiatorDispatcher
from harness.load.messages import Asker, Unanswered
from harness.load.users import TestClient

WORKER_TIMEOUT_S = 30.0  # for a worker process to come up on a busy machine
ANSWER_GRACE_S = 10.0  # beyond what the worker itself has been given


class Pipe:
    """Lines of JSON from and to the parent."""

    def __init__(self) -> None:
        self._orders = FileObjectPosix(os.dup(0), "rb")
        self._output = os.dup(1)
        os.dup2(2, 1)  # whatever prints goes to the log

    def tell(self, line: dict[str, Any]) -> None:
        os.write(self._output, json.dumps(line).encode() + b"\n")

    def obey(self, actions: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
        """Carries out orders until the parent is gone, each in a greenlet of its own."""
        for line in self._orders:
            order = json.loads(line)
            gevent.spawn(self._carry_out, order, actions[order["do"]])

    def _carry_out(self, order: dict[str, Any], action: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        try:
            result = action(order)
        except Exception as error:
            result = {"error": str(error) or type(error).__name__}
        self.tell({"id": order["id"], **result})


class Master:
    """Cells on the master's side: users where they belong, and one question to every worker that takes part."""

    def __init__(self, environment: Any, pipe: Pipe) -> None:
        self._pipe = pipe
        self._workers: dict[int, str] = {}  # Locust's client id of each initiator's worker
        self._taking_part: dict[int, str] = {}
        self._threads = 0
        environment.dispatcher_class = functools.partial(
            InitiatorDispatcher, assignment=lambda: (self._taking_part, self._threads)
        )
        self.runner = environment.create_master_runner("127.0.0.1", 0)
        self._asker = Asker(self.runner)
        self.runner.register_message("client_computer", self._on_client_computer)
        self.runner.register_message("cell_progress", self._on_progress)

    @property
    def port(self) -> int:
        port: int = self.runner.server.port
        return port

    def prepare(self, plan: dict[str, Any]) -> dict[str, Any]:
        """Users for the cell are there, connected, and wait at the barrier."""
        self.assign(plan["initiators"], plan["threads"])
        self.start_users()
        return self.prepare_cell(plan)

    def assign(self, initiators: int, threads: int) -> None:
        """Which workers take part from now on, and with how many users each."""
        wanted = range(1, initiators + 1)
        with gevent.Timeout(WORKER_TIMEOUT_S, RuntimeError("a worker did not connect to the master")):
            while not all(self._is_connected(number) for number in wanted):
                gevent.sleep(0.01)
        self._taking_part = {number: self._workers[number] for number in wanted}
        self._threads = threads

    def forget(self, initiator: int) -> None:
        """The initiator's worker has died: nothing is asked of it. Locust itself would wait for it for a minute."""
        self._taking_part.pop(initiator, None)
        self.runner.clients.pop(self._workers.pop(initiator, ""), None)

    def _is_connected(self, number: int) -> bool:
        node = self.runner.clients.get(self._workers.get(number))
        return node is not None and node.state != STATE_MISSING

    @property
    def users(self) -> int:
        return self._threads * len(self._taking_part)

    def start_users(self) -> None:
        """Locust's own start: it returns when the workers have reported the users."""
        self.runner.stats.clear_all()
        self.runner.start(self.users, spawn_rate=self.users)

    def prepare_cell(self, plan: dict[str, Any]) -> dict[str, Any]:
        data = {key: value for key, value in plan.items() if key not in ("id", "do", "connections", "handles")}
        own = zip(self._taking_part, plan["connections"], plan["handles"], strict=True)
        answers = self._ask_all(
            "cell_prepare",
            {number: {**data, "connection": connection, "handles": handles} for number, connection, handles in own},
            plan["timeout_s"],
        )
        return {"answers": answers}

    def start_cell(self, _: dict[str, Any]) -> dict[str, Any]:
        """The barrier opens."""
        return {"answers": self._ask_all("cell_start", {number: {} for number in self._taking_part}, 0)}

    def stop_cell(self, order: dict[str, Any]) -> dict[str, Any]:
        """Every thread has returned, every worker has written its calls."""
        data = {"timeout_s": order["timeout_s"]}
        answers = self._ask_all("cell_stop", dict.fromkeys(self._taking_part, data), order["timeout_s"])
        return {"answers": answers}

    def _ask_all(self, question: str, data: dict[int, dict[str, Any]], timeout_s: float) -> list[dict[str, Any]]:
        """One answer per initiator, in their order; RuntimeError with the first failure."""

        def ask(number: int) -> dict[str, Any]:
            try:
                client_id = self._taking_part[number]
                return self._asker.ask(client_id, question, data[number], timeout_s=timeout_s + ANSWER_GRACE_S)
            except Unanswered as error:
                return {"error": f"initiator {number}: {error}"}

        greenlets = [gevent.spawn(ask, number) for number in data]
        gevent.joinall(greenlets)
        answers: list[dict[str, Any]] = [greenlet.value for greenlet in greenlets]
        for answer in answers:
            if "error" in answer:
                raise RuntimeError(answer["error"])
        return answers

    def _on_client_computer(self, environment: Any, msg: Any, **_: Any) -> None:
        self._workers[msg.data["initiator"]] = msg.node_id

    def _on_progress(self, environment: Any, msg: Any, **_: Any) -> None:
        self._pipe.tell({"event": "progress", **msg.data})


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--web-port", type=int)
    parser.add_argument("--lab", default="lab", help="what the web page says it loads")
    options = parser.parse_args()
    setup_logging("WARNING")  # type: ignore[no-untyped-call]
    pipe = Pipe()
    environment = Environment(user_classes=[TestClient], events=locust.events)
    master = Master(environment, pipe)
    actions = {"prepare": master.prepare, "start": master.start_cell, "stop": master.stop_cell}
    if options.web_port is not None:
        from harness.load.web import WebInterface  # noqa: PLC0415  only `harness ui` needs it

        actions["reply"] = WebInterface(environment, master, pipe, options.web_port, options.lab).on_reply
    pipe.tell({"event": "listening", "port": master.port})
    pipe.obey(actions)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
