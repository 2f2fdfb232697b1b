"""Locust's web interface for one scenario, in the master process.

Its start form asks for the scenario's fields instead of a number of users: a load shape, which Locust asks for the
user count, gives what the fields amount to. Before Locust sees a start, the parent process (`ui`) is asked to have the
lab and its dialogs ready; whatever goes wrong there stands in the form. Blocking work never happens in this process.
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import gevent
from flask import Response, jsonify, request
from gevent.event import AsyncResult
from locust import LoadTestShape, argument_parser, stats

from harness.load.plan import SEND_MESSAGE
from harness.load.scenario import CHOICES, THREADS_MAX, BadScenario, Scenario

logger = logging.getLogger(__name__)

STOP_TIMEOUT_S = 10.0
PREPARE_TIMEOUT_S = 60.0
REPLY_TIMEOUT_S = 900.0  # a pool of 22,500 dialogs on a slow machine


class ScenarioShape(LoadTestShape):
    """As many users as the scenario has threads, all at once."""

    master: Any = None

    def tick(self) -> tuple[int, float]:
        return self.master.users, self.master.users


class WebInterface:
    """The start form, its validation, and the cell behind Locust's own start and stop."""

    def __init__(self, environment: Any, master: Any, pipe: Any, port: int, lab: str) -> None:
        self._environment = environment
        self._master = master
        self._pipe = pipe
        self._status = "ready"
        self._failure = ""  # why the last scenario ended by itself
        self._plans = itertools.count(1)
        self._plan: dict[str, Any] = {}
        self._reply: AsyncResult | None = None
        self._cell: gevent.Greenlet | None = None
        environment.events.init_command_line_parser.add_listener(add_fields)
        sys.argv = sys.argv[:1]  # Locust parses it again for the form's defaults
        environment.parsed_options = argument_parser.get_parser(default_config_files=[]).parse_args([])
        environment.host = lab
        environment.shape_class = ScenarioShape()  # type: ignore[no-untyped-call]
        environment.shape_class.master = master
        environment.shape_class.runner = environment.runner
        environment.events.spawning_complete.add_listener(self._on_spawning_complete)
        environment.events.test_stopping.add_listener(self._on_test_stopping)
        web_ui = environment.create_web_ui("127.0.0.1", port, delayed_start=True)
        web_ui.app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}  # the form's fields in their order
        web_ui.app.json.sort_keys = False
        web_ui.app.before_request(self._before_request)
        web_ui.app.after_request(add_own_page_parts)
        web_ui.app.add_url_rule("/scenario", view_func=self._show_status)
        web_ui.start()
        gevent.spawn(stats.stats_history, environment.runner)

    def on_reply(self, order: dict[str, Any]) -> dict[str, Any]:
        """The parent reports on the scenario: a step it is at, its end, why it failed, or a worker that died."""
        if "status" in order:
            self._status = order["status"]
        elif "lost" in order:
            self._master.forget(order["lost"])
            self._fail(order["reason"])
        elif self._reply is not None:
            self._reply.set(order)
        return {}

    def _show_status(self) -> Response:
        return jsonify({"status": self._status})

    def _before_request(self) -> Response | None:
        """Comes before Locust's own start, and stands in for it where the scenario cannot start."""
        if request.path != "/swarm" or request.method != "POST":
            return None
        try:
            self._make_ready(request.form)
        except (BadScenario, RuntimeError) as error:
            self._status = "ready"
            return jsonify({"success": False, "message": str(error)})
        return None

    def _make_ready(self, form: Mapping[str, str]) -> None:
        if self._reply is not None:
            raise BadScenario("another start is being prepared")
        if self._environment.runner.state in ("spawning", "running", "stopping"):
            raise BadScenario("a scenario is running: stop it first")
        scenario = Scenario.from_form(form)
        self._reply = AsyncResult()
        try:
            self._pipe.tell({"event": "scenario", "fields": scenario.fields()})
            answer = self._reply.get(timeout=REPLY_TIMEOUT_S)
        except gevent.Timeout:
            raise RuntimeError(f"the lab was not ready after {REPLY_TIMEOUT_S:g} s") from None
        finally:
            self._reply = None
        if "failure" in answer:
            raise RuntimeError(answer["failure"])
        self._master.assign(scenario.initiators, scenario.threads)
        self._plan = {
            "plan": next(self._plans),
            "cell": "",
            "attempt": 1,
            "run": answer["run"],
            "initiators": scenario.initiators,
            "threads": scenario.threads,
            "payload_bytes": scenario.payload_bytes,
            "results": "",
            "procedure": SEND_MESSAGE,
            "connections": answer["connections"],
            "handles": answer["handles"],
            "timeout_s": PREPARE_TIMEOUT_S,
        }
        self._failure = ""
        self._status = str(scenario)

    def _on_spawning_complete(self, user_count: int, **_: Any) -> None:
        if user_count:
            self._cell = gevent.spawn(self._begin_cell)

    def _begin_cell(self) -> None:
        try:
            self._master.prepare_cell(self._plan)
            self._master.start_cell({})
        except RuntimeError as error:
            self._fail(str(error))

    def _fail(self, reason: str) -> None:
        """Stops the scenario and says why, on the page's failures and in the status line."""
        logger.error(reason)
        self._failure = self._status = reason
        self._environment.runner.stats.log_error("CELL", "scenario", reason)
        gevent.spawn(self._environment.runner.stop)

    def _on_test_stopping(self, **_: Any) -> None:
        """Before Locust stops the users: every thread finishes its call."""
        if self._cell is None:
            return
        cell, self._cell = self._cell, None
        cell.join()
        try:
            answers = self._master.stop_cell({"timeout_s": STOP_TIMEOUT_S})["answers"]
        except RuntimeError as error:
            logger.error("%s", error)
            return
        for answer in answers:
            for problem in answer["problems"]:
                logger.warning("%s", problem)
        self._status = self._failure or "stopped"


def add_fields(parser: Any) -> None:
    """The scenario's fields, on the start form's custom parameters."""
    for name, default in Scenario().fields().items():
        meaning, choices = CHOICES.get(name, (f"per initiator, 1 to {THREADS_MAX}", None))
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=int, default=default, choices=choices, help=meaning, is_required=True
        )


def add_own_page_parts(response: Response) -> Response:
    """Puts the few lines of `scenario.html` into Locust's page: its form unfolded, and a line of status."""
    if request.path == "/" and response.mimetype == "text/html":
        own = files("harness.load").joinpath("scenario.html").read_text(encoding="utf-8")
        response.set_data(response.get_data(as_text=True).replace("</body>", own + "</body>"))
    return response
