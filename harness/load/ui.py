"""`harness ui`: one scenario by hand, behind Locust's web interface.

This process owns the lab and the Locust processes, and blocks wherever it likes; the web interface lives in the
master's process (`web`) and asks it for scenarios. The lab is started once, with all its initiators; its dialogs are
begun anew when the initiators or the ratio change, or when more threads are wanted than there are used dialogs.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from harness import lab as lab_package
from harness.lab import Lab, LabError, dialog_pool, interruption, reset
from harness.lab.instances import connections
from harness.lab.scripts import ScriptError
from harness.lab.selection import Selection
from harness.load.clients import Clients, WebPage
from harness.load.scenario import Scenario

DRAIN_TIMEOUT_S = 120.0
WATCH_S = 0.5
Tell = Callable[[str], None]


class Ready(NamedTuple):
    """What the clients of a scenario need, by initiator."""

    connection_strings: Sequence[str]
    handles: Sequence[Sequence[str]]  # of dialogs in use, one for each thread


class Stage(Protocol):
    """Where scenarios play: makes dialogs ready and says where to connect."""

    def make_ready(self, scenario: Scenario, tell: Tell) -> Ready:
        """LabError or ScriptError where it cannot be."""
        ...

    def check(self) -> None:
        """LabError if something has died."""
        ...


class LabStage:
    """A lab with dialogs for the last scenario."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._pool: tuple[int, int, int] | None = None  # initiators, ratio, used dialogs
        self._used = False

    def make_ready(self, scenario: Scenario, tell: Tell) -> Ready:
        wanted = (scenario.initiators, scenario.dialog_ratio)
        if self._pool is None or self._pool[:2] != wanted or self._pool[2] < scenario.threads:
            count = scenario.initiators * scenario.threads * scenario.dialog_ratio
            tell(f"beginning {count} dialogs and warming them up ...")
            self._pool = None
            if self._used:
                reset.conversations(self._lab)
            self._used = True
            dialog_pool.build(
                self._lab,
                initiators=scenario.initiators,
                used_dialogs=scenario.threads,
                dialog_ratio=scenario.dialog_ratio,
            )
            self._pool = (*wanted, scenario.threads)
        else:
            tell("waiting until the last scenario's messages have been processed ...")
            self._drain(scenario.initiators)
        taking_part = self._lab.initiators[: scenario.initiators]
        with connections(taking_part) as opened:
            handles = [own[: scenario.threads] for own in dialog_pool.used(opened)]
        return Ready([instance.client_connection_string() for instance in taking_part], handles)

    def check(self) -> None:
        self._lab.check()

    def _drain(self, initiators: int) -> None:
        taking_part = self._lab.initiators[:initiators]
        with connections(taking_part) as clients, connections([self._lab.target]) as (target,):
            dialog_pool.wait_until_drained(
                self._lab, taking_part, clients, target, expected=0, timeout_s=DRAIN_TIMEOUT_S
            )
            reset.messages(self._lab, target)


def serve(stage: Stage, clients: Clients) -> None:
    """Plays scenarios as the web interface asks for them, for ever.

    A worker that dies ends its scenario; the lab or the master end everything: LabError or LoadError.
    """
    clients.launch(1)
    run = 0
    while True:
        event = clients.next_event(WATCH_S)
        stage.check()
        for initiator, death in clients.bury().items():
            clients.reply(lost=initiator, reason=death)
            clients.launch(1)  # without any worker Locust's page takes no start
        if event is None:
            continue
        run += 1
        scenario = Scenario(**event["fields"])
        try:
            ready = stage.make_ready(scenario, lambda text: clients.reply(status=text))
            clients.launch(scenario.initiators)
            known = clients.connect(ready.connection_strings)
            clients.reply(run=run, connections=known, handles=ready.handles)
        except (LabError, ScriptError) as error:
            clients.reply(failure=str(error))


def main(selection: Selection, *, port: int = 8089, version: str | None = None, say: Tell = print) -> None:
    """Serves until Ctrl-C or SIGTERM, which leave as KeyboardInterrupt."""
    topology = selection.topology
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-ui-")))
        stack.enter_context(interruption.noted())
        opened = stack.enter_context(
            lab_package.open(
                topology,
                version=version or topology.sweep_versions[-1],
                initiators=topology.initiators_max,
                directory=directory / "lab",
                driver=selection.settings.driver,
                watch=interruption.check,
                tell=say,
            )
        )
        clients = stack.enter_context(
            Clients(log_directory=directory / "logs", run="ui", web=WebPage(port, f"{topology.kind} lab"))
        )
        clients.launch(1)
        say(f"http://127.0.0.1:{port} is Locust with the {topology.kind} lab behind it; Ctrl-C ends both")
        serve(LabStage(opened), clients)
