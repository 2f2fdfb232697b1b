"""`harness ui`: one scenario by hand, behind Locust's web interface.

This process owns the lab and the Locust processes, and may block; the web interface lives in the master's process
(`web`) and asks this one for scenarios. The lab starts once, with all its initiators; its dialogs are begun anew when
the number of initiators changes, or when a scenario needs more of them. A thread looks at the instances each second
and sends what it finds to the page, also before the first scenario and after the last.
"""

import contextlib
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self

from harness.definitions.load_model import OpenLoop
from harness.definitions.matrix import PAYLOADS_BYTES, Cell, Visit
from harness.definitions.units import counted
from harness.files.script_text import ScriptError
from harness.files.settings import RunSettings
from harness.files.workload_file import PAPER, Workload, WorkloadError
from harness.lab import dialog_pool, interruption, link, opening
from harness.lab.instances import Lab, LabError, connections
from harness.lab.opening import Selection
from harness.load import messages
from harness.load.locust_clients import Elsewhere, LocustClients
from harness.load.pages import openmetrics
from harness.load.pages.openmetrics import LabMetrics
from harness.load.plan import CellPlan, LoadError, Sending
from harness.observe.looks import Look, Looks

DRAIN_TIMEOUT_S = 120.0
WATCH_S = 0.5
LOOK_EVERY_S = 1.0
PAGE_ASKS_WITHIN_S = 1.5  # for the status: three times as long as the page waits between two questions
Tell = Callable[[str], None]


class Stage(Protocol):
    """Where scenarios run."""

    def make_ready(self, scenario: messages.WebScenario, run: int, tell: Tell) -> CellPlan:
        """Make dialogs ready and plan the cell; raise LabError, ScriptError or WorkloadError."""
        ...

    def check(self) -> None:
        """Raise LabError if something has died."""
        ...


class LabStage:
    """A lab with dialogs for the last scenario."""

    def __init__(self, lab: Lab, settings: RunSettings) -> None:
        self._lab = lab
        self._settings = settings
        self._pool: messages.WebScenario | None = None  # whose dialogs there are
        self._used = False

    def make_ready(self, scenario: messages.WebScenario, run: int, tell: Tell) -> CellPlan:
        self._lab.workload.require_payload(scenario.payload_bytes)
        if not self._serves(scenario):
            tell(f"beginning {counted(scenario.dialogs, 'dialog')} and warming up ...")
            self._pool = None
            if self._used:
                link.remove_conversations(self._lab)
            self._used = True
            dialogs = scenario.dialogs // scenario.initiators
            used = () if self._lab.kind.warms_up_all(None) else ((scenario.dialog_ratio, scenario.threads),)
            dialog_pool.build(self._lab, initiators=scenario.initiators, dialogs=dialogs, used=used)
            # Retained messages of a scenario would be in the next one's way.
            self._pool = None if self._lab.workload.queue.retention else scenario
        else:
            tell("waiting until the last scenario's messages have been processed ...")
            self._drain(scenario.initiators)
        taking_part = self._lab.initiators[: scenario.initiators]
        with connections(taking_part) as opened:
            client = self._lab.workload.client
            handles = dialog_pool.identifiers(self._lab, opened, client, scenario.dialog_ratio, scenario.threads)
        strings = [instance.client_connection_string() for instance in taking_part]
        open_loop = self._settings.model_copy(update={"rate": scenario.rate_per_s}).open_loop
        sending = Sending(client, handles, self._lab.workload.bodies)
        return plan_of(scenario, run, self._lab.version, strings, sending, open_loop)

    def check(self) -> None:
        self._lab.check()

    def _serves(self, scenario: messages.WebScenario) -> bool:
        """Whether the dialogs that there are do for a scenario: some labs warm up only those that are used."""
        pool = self._pool
        if pool is None or pool.initiators != scenario.initiators or pool.dialogs < scenario.dialogs:
            return False
        return self._lab.kind.warms_up_all(None) or (
            pool.dialog_ratio == scenario.dialog_ratio and pool.threads >= scenario.threads
        )

    def _drain(self, initiators: int) -> None:
        taking_part = self._lab.initiators[:initiators]
        with connections(taking_part) as clients, connections([self._lab.target]) as (target,):
            dialog_pool.wait_until_drained(
                self._lab, taking_part, clients, target, expected=0, timeout_s=DRAIN_TIMEOUT_S
            )
            dialog_pool.empty_tables(self._lab, target)


def plan_of(  # noqa: PLR0917
    scenario: messages.WebScenario,
    run: int,
    version: str,
    connection_strings: Sequence[str],
    sending: Sending,
    open_loop: OpenLoop | None,
) -> CellPlan:
    """A cell that keeps no records."""
    cell = Cell(version, scenario.initiators, scenario.dialog_ratio, scenario.threads, scenario.payload_bytes)
    return CellPlan(
        Visit(cell), 1, run, connection_strings, sending.handles, None, sending.client, open_loop, sending.bodies
    )


class Player:
    """Runs scenarios as the web interface asks for them.

    A worker that dies ends its scenario; a lab or a master that dies ends everything.
    """

    def __init__(self, stage: Stage, clients: LocustClients) -> None:
        self._stage = stage
        self._clients = clients
        self._plan: CellPlan | None = None
        self._run = 0

    def serve(self) -> None:
        """Never returns; raises LabError or LoadError."""
        while True:
            request = self._clients.next_request(WATCH_S)
            self._check_stage()
            for lost in self._clients.remove_dead_workers():
                self._clients.tell_master(lost)
                self._clients.launch(1)  # without any worker Locust's page takes no start
            if request is not None:
                number, message = request
                try:
                    answer = self._carry_out(message)
                except (LabError, ScriptError, LoadError, WorkloadError) as error:
                    answer = messages.Failed(str(error))
                self._clients.tell_master(answer, number)

    def _check_stage(self) -> None:
        """Raise LabError if something has died, after the page has shown what: it ends with this process."""
        try:
            self._stage.check()
        except LabError as error:
            self._show_status(f"the lab has failed: {error}")
            time.sleep(PAGE_ASKS_WITHIN_S)
            raise

    def _carry_out(self, message: messages.Message) -> messages.Answer:
        if isinstance(message, messages.MakeReady):
            self._run += 1
            self._plan = self._stage.make_ready(message.scenario, self._run, self._show_status)
            self._clients.launch(message.scenario.initiators)
            return messages.Ready(self._clients.users(self._plan.cell))
        assert self._plan is not None
        if isinstance(message, messages.BeginScenario):
            self._clients.prepare_cell(self._plan)
            self._clients.start()
            return messages.Done()
        return messages.Ended(self._clients.stop().problems)

    def _show_status(self, text: str) -> None:
        self._clients.tell_master(messages.Status(text))


def looks_at(lab: Lab) -> Looks:
    """Return what looks at all instances of a lab."""
    return Looks(
        lab.instances, has_page_latches=lab.kind.can.has_page_latches, stores_messages=not lab.workload.is_counted
    )


class Feed:
    """Sends a look at the instances to the page each second, until the block ends or the lab does."""

    def __init__(self, looks: Looks, send: Callable[[Look], None]) -> None:
        self._looks = looks
        self._send = send
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="looks of the page", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._looks.close()

    def _run(self) -> None:
        due_s = time.monotonic()
        # The main thread finds out why a lab or a master has died.
        with contextlib.suppress(LoadError):
            while not self._ended.wait(max(0.0, due_s - time.monotonic())):
                due_s = max(due_s + LOOK_EVERY_S, time.monotonic())
                self._send(self._looks.take())


def suggested_payloads(workload: Workload, usual: int) -> list[int]:
    """The usual payload, and those of the paper that the messages of a workload can have."""
    payloads = {usual}
    for payload in PAYLOADS_BYTES:
        with contextlib.suppress(WorkloadError):
            workload.require_payload(payload)
            payloads.add(payload)
    return sorted(payloads)


def main(
    selection: Selection,
    *,
    port: int,
    metrics: int | None,
    version: str,
    initiators: int,
    payload_bytes: int,
    say: Tell = print,
) -> None:
    """Serve until Ctrl-C or SIGTERM, which leave as KeyboardInterrupt."""
    topology, settings = selection.topology, selection.settings
    rate = "" if settings.rate is None else f"{settings.rate:g}/s"
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-ui-")))
        stack.enter_context(interruption.noted())
        opened = stack.enter_context(
            opening.open(
                topology,
                version=version,
                initiators=initiators,
                directory=directory / "lab",
                driver=settings.driver,
                watch=interruption.check,
                tell=say,
            )
        )
        workload, bodies = topology.workload, topology.workload.bodies
        begins_dialogs = workload.client.begins_dialogs
        page = messages.ServePage(
            port,
            kind=topology.kind.name,
            lab=f"{topology.kind.name} lab{'' if workload.name == PAPER else f', workload {workload}'}",
            whose_numbers=topology.kind.whose_numbers
            + (f", version {version}" if topology.kind.can.is_measurement else ""),
            initiators_max=initiators,
            scenario=messages.WebScenario(
                dialog_ratio=1 if begins_dialogs else messages.WebScenario().dialog_ratio,
                payload_bytes=payload_bytes,
                rate=rate,
            ),
            payloads=suggested_payloads(workload, payload_bytes),
            payload_is_mean=bodies is not None and bodies.mean_bytes is not None,
            begins_dialogs=begins_dialogs,
        )

        def tell(text: str) -> None:
            say(text)
            clients.tell_master(messages.Status(text))

        clients = stack.enter_context(
            LocustClients(
                log_directory=directory / "logs",
                page=page,
                elsewhere=Elsewhere.of(settings),
                per_initiator=settings.workers_per_initiator,
                tell=tell,
            )
        )
        clients.launch(1)
        clients.tell_master(messages.Status(messages.READY))
        of_lab = LabMetrics()
        if metrics:
            stack.enter_context(openmetrics.serving(metrics, of_lab))

        def show(look: Look) -> None:
            of_lab.show(look)
            clients.tell_master(messages.Looked.of(look))

        stack.enter_context(Feed(looks_at(opened), show))
        say(f"http://127.0.0.1:{port} is Locust with the {topology.kind.name} lab behind it; Ctrl-C ends both")
        Player(LabStage(opened, settings), clients).serve()
