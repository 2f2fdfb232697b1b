"""`locust -f locustfile.py` without a run: users that send to a lab, with all that Locust offers for its own tests.

One process opens a lab, begins dialogs for as many users as Locust is to start, and gives each user a native thread
with a connection and a dialog. Users come and go as Locust says: there is no barrier, no settling, no accounting and no
record. Users are dealt round robin to the initiators. A page has the tabs of `looks`.
"""

import contextlib
import logging
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gevent
from flask import Response, jsonify, request

from harness.failures import MachineFailure, UsageFailure
from harness.lab import opening
from harness.lab.instances import Lab
from harness.lab.opening import Topology, select_lab
from harness.load.messages import BadScenario, Looked, WebScenario
from harness.load.own_options import SCENARIO, SETTINGS
from harness.load.pages import guard
from harness.load.pages.looks import LooksPage, add_to_locust
from harness.load.plan import CellPlan
from harness.load.recorder import METHOD, CallFailed, NewCalls, Recorder
from harness.load.threads import CellRun, ClientThread, ThreadState, Turns
from harness.load.ui import Feed, LabStage, looks_at
from harness.observe.looks import Look
from harness.output.safe_text import visible

logger = logging.getLogger(__name__)

COLLECT_EVERY_S = 0.5
POLL_S = 0.01
LAST_CALLS_S = 10.0  # for the last calls of a test to return


@dataclass
class _Seat:
    """A user's thread, its run, and how much of it Locust knows."""

    thread: ClientThread
    run: CellRun
    calls: int = 0
    failures: int = 0


class Alone:
    """The lab of this process, and the seats of its users."""

    def __init__(self, environment: Any, runner: Any) -> None:
        self._environment = environment
        self._runner = runner
        self._recorder = Recorder(environment)
        self._exits = contextlib.ExitStack()
        self._plan: CellPlan | None = None
        self._refusal = ""  # why there is no plan
        self._is_fresh = False  # the plan has not been used
        self._is_blocking = False  # dialogs are being begun, and no greenlet runs
        self._turns: dict[int, Turns] = {}
        self._tests = 0
        self._seats: dict[int, _Seat | None] = {}  # by place; None: a user who could not begin
        self._leaving: list[_Seat] = []
        self._looks_page: LooksPage | None = None
        environment.seats = self  # where users find them
        try:
            self._stage = self._opened()
        except (UsageFailure, MachineFailure) as error:
            sys.exit(f"harness: {visible(str(error))}")
        signal.signal(signal.SIGINT, self._on_interrupt)
        options = environment.parsed_options
        if options.headless or options.autostart:
            # Now, because Locust's clock of --run-time runs while a test starts.
            self._make_ready(options.num_users or 1)
        events = environment.events
        events.test_start.add_listener(self._on_test_start)
        events.test_stop.add_listener(self._on_test_stop)
        events.quitting.add_listener(self._on_quitting)
        gevent.spawn(self._collect_for_ever)

    def take(self) -> int:
        """Let a new user begin; its place. Locust shows as a failed request why one could not."""
        place = next(number for number in range(len(self._seats) + 1) if number not in self._seats)
        self._seats[place] = None
        try:
            self._seats[place] = self._begun(place)
        except RuntimeError as error:
            self._environment.events.request.fire(
                request_type="CONNECT",
                name="user",
                response_time=0,
                response_length=0,
                exception=CallFailed(str(error)),
                context={},
            )
        except BaseException:  # Locust stops the user meanwhile
            del self._seats[place]
            raise
        return place

    def leave(self, place: int) -> None:
        """Let a user's thread end after its current call."""
        if seat := self._seats.pop(place):
            seat.run.stopping = True
            self._leaving.append(seat)

    def _opened(self) -> LabStage:
        options, web_ui = self._environment.parsed_options, self._environment.web_ui
        if web_ui is not None:
            guard.protect(web_ui.app, web_ui.host, is_encrypted=bool(web_ui.tls_cert and web_ui.tls_key))
        selection = select_lab({name: getattr(options, name) for name in SETTINGS})
        scenario = self._scenario(users=1, initiators_max=selection.topology.initiators_max)
        logger.info(selection.first_line)
        if web_ui is not None:
            logger.info("opening the lab; the page answers when it is open")
        lab = self._exits.enter_context(
            opening.open(
                selection.topology,
                version=selection.topology.sweep_versions[-1],
                initiators=scenario.initiators,
                driver=selection.settings.driver,
                tell=logger.info,
            )
        )
        self._initiators_max = len(lab.initiators)
        self._environment.host = f"{selection.topology.kind.name} lab"
        if web_ui is not None:
            web_ui.app.before_request(self._refuse_form)
            self._show_looks(lab, selection.topology)
        return LabStage(lab, selection.settings)

    def _show_looks(self, lab: Lab, topology: Topology) -> None:
        """Look at the lab in a thread of its own, and show that in the loop of the page."""
        policies = self._environment.web_ui.app.jinja_env.policies
        policies["json.dumps_kwargs"] = {"sort_keys": False}  # the form's fields in their order
        self._looks_page = page = add_to_locust(self._environment.web_ui)
        page.show_lab(topology.kind, topology.kind.whose_numbers)
        loop = gevent.get_hub().loop

        def send(look: Look) -> None:
            loop.run_callback_threadsafe(page.add, Looked.of(look))

        self._exits.enter_context(Feed(looks_at(lab), send))

    def _refuse_form(self) -> Response | None:
        """Run before Locust's own start, and replace it where a field is wrong."""
        users = request.form.get("user_count", "")
        if request.path != "/swarm" or not users.isdecimal():  # Locust says what is wrong with such a number
            return None
        try:
            self._scenario(int(users) or 1, self._initiators_max, request.form)
        except UsageFailure as error:
            return jsonify({"success": False, "message": str(error)})
        return None

    def _scenario(self, users: int, initiators_max: int, fields: Mapping[str, str] | None = None) -> WebScenario:
        """What the page's fields or else the options say, with threads for so many users; raises UsageFailure."""
        options = self._environment.parsed_options
        form = {name: str(getattr(options, name)) for name in SCENARIO} | dict(fields or {})
        try:
            scenario = WebScenario.from_form(form, initiators_max)
            threads = -(-users // scenario.initiators)
            return WebScenario.from_form({**form, "threads": str(threads)}, initiators_max)
        except BadScenario as error:
            raise UsageFailure(str(error)) from None

    def _make_ready(self, users: int) -> None:
        """Begin dialogs for so many users."""
        self._tests += 1
        self._plan, self._is_fresh = None, True
        self._is_blocking = True
        try:
            scenario = self._scenario(users, self._initiators_max)
            self._plan = self._stage.make_ready(scenario, self._tests, logger.info)
        except (UsageFailure, MachineFailure) as error:
            logger.error("%s", error)
            self._refusal = str(error)
            if self._environment.parsed_options.headless:
                self._environment.process_exit_code = 3
                gevent.spawn(self._runner.quit)
        finally:
            self._is_blocking = False
            # A timer counts from the time that the loop last looked at, which is that before the lab was opened.
            gevent.get_hub().loop.update_now()

    def _on_interrupt(self, *_: Any) -> None:
        """Ctrl-C. Raised in whatever greenlet runs, it is printed or lost; the hub gives it to Locust's own."""
        if self._is_blocking:
            raise KeyboardInterrupt
        hub = gevent.get_hub()
        hub.loop.run_callback_threadsafe(hub.parent.throw, KeyboardInterrupt)

    def _on_test_start(self, **_: Any) -> None:
        if not self._is_fresh:
            self._make_ready(self._runner.target_user_count or 1)
        self._is_fresh, plan = False, self._plan
        if plan is None:
            return
        if self._looks_page is not None:
            self._looks_page.run_begins(time.time())
        initiators = range(1, plan.cell.initiators + 1)
        self._turns = {number: Turns(plan.open_loop.starts_ns(number, 1)) for number in initiators if plan.open_loop}
        for turns in self._turns.values():
            turns.began_ns = time.perf_counter_ns()

    def _begun(self, place: int) -> _Seat:
        """A connected thread that sends; raises RuntimeError."""
        plan = self._plan
        if plan is None:
            raise RuntimeError(self._refusal)
        initiator, thread_number = place % plan.cell.initiators + 1, place // plan.cell.initiators + 1
        handles = plan.handles[initiator - 1]
        if thread_number > len(handles):
            raise RuntimeError("there are dialogs for as many users as the test began with: stop it, and start anew")
        run = CellRun(
            connection_string=plan.connection_strings[initiator - 1],
            initiator=initiator,
            run=plan.run,
            payload_bytes=plan.cell.payload_bytes,
            client=plan.client,
            bodies=plan.bodies,
            threads=plan.cell.initiators * plan.cell.threads,
            turns=self._turns.get(initiator),
        )
        thread = ClientThread()
        try:
            thread.prepare(run, thread_number, handles[thread_number - 1])
            while thread.state is ThreadState.PREPARING:
                gevent.sleep(POLL_S)
            if thread.state is not ThreadState.READY:
                raise RuntimeError(thread.reason)
        except BaseException:
            thread.retire()
            raise
        thread.start()
        return _Seat(thread, run)

    def _collect_for_ever(self) -> None:
        while True:
            gevent.sleep(COLLECT_EVERY_S)
            self._collect()

    def _collect(self) -> None:
        """Tell Locust of new calls, and end threads whose users have left."""
        has_returned = [seat.thread.state is not ThreadState.RUNNING for seat in self._leaving]
        new = []
        for seat in self._known():
            log, failures = seat.thread.log, seat.thread.log.failures
            calls, failed = log.count, len(failures)
            context = {"initiator": seat.run.initiator, "thread": seat.thread.number}
            fresh = failures[seat.failures : failed]
            new.append(NewCalls(log, range(seat.calls, calls), fresh, seat.run.clock_offset_ns, context))
            seat.calls, seat.failures = calls, failed
        if new:
            assert self._plan is not None
            self._recorder.record(new, name=self._plan.client.procedure, payload_bytes=self._plan.cell.payload_bytes)
        for seat, returned in zip(list(self._leaving), has_returned, strict=True):
            if returned:
                seat.thread.retire()
                self._leaving.remove(seat)

    def _known(self) -> Iterator[_Seat]:
        yield from (seat for seat in self._seats.values() if seat)
        yield from self._leaving

    def _on_test_stop(self, **_: Any) -> None:
        deadline = time.monotonic() + LAST_CALLS_S
        self._collect()
        while self._leaving and time.monotonic() < deadline:
            gevent.sleep(POLL_S)
            self._collect()
        for seat in self._leaving:
            logger.warning("%s: a thread is still in a call %g s after the stop", METHOD, LAST_CALLS_S)
            seat.thread.retire()
        self._leaving.clear()

    def _on_quitting(self, **_: Any) -> None:
        self._runner.stop()
        self._exits.close()
