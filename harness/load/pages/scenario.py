"""Locust's web interface for one scenario, in the master process.

Its start form asks for the scenario's fields instead of a number of users: a load shape, which Locust asks for the
user count, returns that of the scenario. Before Locust sees a start, the parent process (`ui`) makes the lab and its
dialogs ready; the form shows what goes wrong there. The parent also sends looks at the instances, which `looks`
shows. Blocking work never happens in this process.
"""

import json
import logging
import time
from collections.abc import Mapping
from functools import partial
from html import escape
from importlib.resources import files
from typing import Any

import gevent
import locust
from flask import Response, jsonify, request
from locust import LoadTestShape, argument_parser, stats
from locust.runners import STATE_RUNNING, STATE_STOPPING

from harness.definitions import lab_kinds
from harness.definitions.load_model import CLOSED_LOOP, OPEN_LOOP
from harness.definitions.matrix import DIALOG_RATIOS, THREADS, bounds
from harness.definitions.units import counted
from harness.load import messages
from harness.load.locust_process import Handlers, Pipe
from harness.load.pages import guard
from harness.load.pages.looks import add_to_locust, add_to_page

logger = logging.getLogger(__name__)

# How long a lab may take on a slow machine, and each dialog of its pool.
READY_TIMEOUT_S = 60.0
DIALOG_TIMEOUT_S = 0.04
CELL_TIMEOUT_S = 180.0  # the parent's own limits are shorter


# What the form says after the valid values of a field.
MEANINGS = {
    "initiators": " instances that send",
    "threads": " per initiator",
    "dialog_ratio": "; 150: only every 150th dialog is used",
    "payload_bytes": ", or with a unit, such as 4 KB",
}


class ScenarioShape(LoadTestShape):
    """As many users as the scenario has threads, all at once."""

    master: Any = None

    def tick(self) -> tuple[int, float]:
        return self.master.users, self.master.users


class WebInterface:
    """The start form, its validation, and the cell behind Locust's own start and stop."""

    def __init__(self, environment: Any, master: Any, pipe: Pipe, page: messages.ServePage) -> None:
        self._environment = environment
        self._page = page
        self._master = master
        self._pipe = pipe
        self._status, self._status_at_s = messages.READY, time.monotonic()
        self._failure = ""  # why the last scenario ended by itself
        self._is_making_ready = False
        self._cell: gevent.Greenlet | None = None
        self.handlers: Handlers = {
            messages.Status: self._on_status,
            messages.WorkerLost: self._on_worker_lost,
            messages.Looked: self._on_looked,
        }
        locust.events.init_command_line_parser.add_listener(partial(add_fields, page))  # type: ignore[no-untyped-call]
        environment.parsed_options = argument_parser.get_parser(default_config_files=[]).parse_args()
        environment.host, environment.locustfile = page.lab, "service-broker"  # both are in the names of downloads
        environment.shape_class = ScenarioShape()  # type: ignore[no-untyped-call]
        environment.shape_class.master = master
        environment.shape_class.runner = environment.runner
        environment.events.spawning_complete.add_listener(self._on_spawning_complete)
        environment.events.test_stopping.add_listener(self._on_test_stopping)
        web_ui = environment.create_web_ui(guard.LOOPBACK, page.port, delayed_start=True)
        guard.protect(web_ui.app)
        web_ui.app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}  # the form's fields in their order
        web_ui.app.before_request(self._before_request)
        self._looks_page = add_to_locust(web_ui)
        self._looks_page.show_lab(lab_kinds.named(page.kind), page.whose_numbers)
        web_ui.app.after_request(partial(add_own_page_parts, own_page_parts(page)))
        web_ui.app.add_url_rule("/scenario", view_func=self._show_status)
        web_ui.start()
        gevent.idle()  # it listens
        if web_ui.greenlet.ready():
            web_ui.greenlet.get()  # raises what prevented it: another process took the port a moment ago
        gevent.spawn(stats.stats_history, environment.runner)
        logger.info("%s", page.whose_numbers)

    def _on_status(self, status: messages.Status) -> None:
        self._say(status.text)

    def _say(self, text: str) -> None:
        self._status, self._status_at_s = text, time.monotonic()
        logger.info("%s", text)

    def _on_looked(self, looked: messages.Looked) -> None:
        self._looks_page.add(looked)

    def _on_worker_lost(self, lost: messages.WorkerLost) -> None:
        self._master.forget(lost.worker)
        self._fail(lost.reason)

    def _show_status(self) -> Response:
        since_s = time.monotonic() - self._status_at_s
        return jsonify({"status": self._status, "is_making_ready": self._is_making_ready, "since_s": since_s})

    def _before_request(self) -> Response | None:
        """Run before Locust's own start, and replace it where the scenario cannot start."""
        if request.path != "/swarm" or request.method != "POST":
            return None
        try:
            self._make_ready(request.form)
        except (messages.BadScenario, RuntimeError) as error:
            self._status = messages.READY
            logger.warning("not started: %s", error)
            return jsonify({"success": False, "message": str(error)})
        return None

    def _make_ready(self, form: Mapping[str, str]) -> None:
        if self._is_making_ready:
            raise messages.BadScenario("another start is being prepared")
        if self._environment.runner.state in ("spawning", "running", "stopping"):
            raise messages.BadScenario("a scenario is running: stop it first")
        scenario = messages.WebScenario.from_form(form, self._page.initiators_max)
        timeout_s = READY_TIMEOUT_S + scenario.dialogs * DIALOG_TIMEOUT_S
        self._is_making_ready = True
        try:
            ready = self._pipe.ask(messages.MakeReady(scenario), timeout_s=timeout_s)
        except gevent.Timeout:
            raise RuntimeError(f"the lab was not ready after {timeout_s:,.0f} s") from None
        finally:
            self._is_making_ready = False
        self._master.assign(ready.users)
        self._failure = ""
        workers = len(ready.users)
        self._say(f"{scenario.words(payload_is_mean=self._page.payload_is_mean)}, sent by {counted(workers, 'worker')}")

    def _on_spawning_complete(self, user_count: int, **_: Any) -> None:
        if user_count:
            self._cell = gevent.spawn(self._begin_cell)

    def _begin_cell(self) -> None:
        self._looks_page.run_begins(time.time())
        try:
            self._pipe.ask(messages.BeginScenario(), timeout_s=CELL_TIMEOUT_S)
        except (RuntimeError, gevent.Timeout) as error:
            self._fail(str(error))

    def _fail(self, reason: str) -> None:
        """Stop the scenario and show why, among the page's failures and in the status line."""
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
            ended = self._pipe.ask(messages.EndScenario(), timeout_s=CELL_TIMEOUT_S)
        except (RuntimeError, gevent.Timeout) as error:
            logger.error("%s", error)
            return
        for problem in ended.problems:
            logger.warning("%s", problem)
        self._say(self._failure or "stopped")


def add_fields(page: messages.ServePage, parser: Any, **_: Any) -> None:
    """Add the scenario's fields as options: Locust's start form asks for them."""
    fields = page.scenario.fields()
    parser.add_argument(
        "--load-model",
        choices=[CLOSED_LOOP, OPEN_LOOP],
        default=OPEN_LOOP if page.scenario.rate else CLOSED_LOOP,
        help=f"{CLOSED_LOOP}: a thread sends again when its call has returned; {OPEN_LOOP}: at a rate",
    )
    parser.add_argument("--rate", default=fields.pop("rate"), help=f"of an {OPEN_LOOP}: 500/s per initiator")
    valid = bounds(page.initiators_max)
    for name, default in fields.items():
        values, meaning = valid[name], MEANINGS[name]
        meaning = f"{values[0]:,} to {values[-1]:,}{meaning}" if len(values) > 1 else meaning.strip()
        # As text, since a payload may have a unit.
        parser.add_argument(f"--{name.replace('_', '-')}", default=str(default), help=meaning, is_required=True)


def add_own_page_parts(html: str, response: Response) -> Response:
    """Put the harness's own parts into Locust's page.

    The page asks for statistics while they say that the scenario spawns or runs. It must not see that it is
    stopping, or it would never learn that it has stopped, and would offer no other start.
    """
    add_to_page(html, response)
    if name := response.headers.get("Content-Disposition"):
        response.headers["Content-Disposition"] = name.replace(" ", "-")
    if request.path == "/stats/requests" and response.is_json:
        statistics = response.get_json()
        if statistics.get("state") == STATE_STOPPING:
            response.set_data(json.dumps(statistics | {"state": STATE_RUNNING}))
    return response


def fixed_fields(page: messages.ServePage) -> dict[str, str]:
    """The fields of which lab and workload allow one value, with the reason: the form shows them in grey."""
    reasons = {}
    if page.initiators_max == 1:
        reasons["initiators"] = "this lab has one initiator"
    if page.begins_dialogs:
        reasons["dialog_ratio"] = "this workload begins a dialog for each message, so no dialogs are left unused"
    if page.payload_is_mean:
        reasons["payload_bytes"] = "the mean of the sizes that this workload gives its messages"
    return reasons


def own_page_parts(page: messages.ServePage) -> str:
    """`scenario.html`, which unfolds the form and has a line of status, and a list of suggestions for each field that
    has some: `scenario.html` ties it to the field of that name.

    Threads and dialog ratios are the paper's. Any other value that a cell may have is valid.
    """
    suggestions = {
        "initiators": range(1, page.initiators_max + 1),
        "threads": THREADS,
        "dialog_ratio": DIALOG_RATIOS,
        "payload_bytes": page.payloads,
    }
    fixed = "".join(
        f'<span hidden data-fixed="{name}" title="{escape(why)}"></span>' for name, why in fixed_fields(page).items()
    )
    return (
        fixed
        + files("harness.load.pages").joinpath("scenario.html").read_text(encoding="utf-8")
        + "".join(
            f'<datalist id="suggested_{name}" data-field="{name}">'
            + "".join(f'<option value="{value}"></option>' for value in values)
            + "</datalist>"
            for name, values in suggestions.items()
        )
    )
