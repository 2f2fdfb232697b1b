"""A lab with everything that a cell needs beside its dialogs: opened when first asked for, rebuilt when a part died."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from harness.lab import open as open_lab
from harness.lab import reset
from harness.lab.instances import Lab
from harness.lab.opening import Topology
from harness.load.clients import Clients
from harness.observe import Observers
from harness.settings import Settings
from harness.sweep.cell import Surroundings


class OpenedLab:
    """The lab, Locust's processes, observers, and connections to each instance. Use it from the main thread."""

    def __init__(
        self,
        settings: Settings,
        topology: Topology,
        results: Path,
        *,
        on_lab: Callable[[Lab], None] = lambda lab: None,
        on_note: Callable[[str], None] = lambda text: None,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        self.parts: Surroundings | None = None
        self._settings = settings
        self._topology = topology
        self._results = results
        self._on_lab = on_lab
        self._on_note = on_note
        self._watch = watch
        self._exits = contextlib.ExitStack()
        self._clients: Clients | None = None
        self._said: set[str] = set()

    def open(self, version: str, initiators: int) -> Surroundings:
        """LabError, ScriptError, LoadError or ChildError where it does not come up."""
        if self._clients is None:
            self._clients = Clients(log_directory=self._results / "lab" / "logs", run=self._results.name)
        lab = self._exits.enter_context(
            open_lab(
                self._topology,
                version=version,
                initiators=initiators,
                directory=self._results / "lab",
                driver=self._settings.driver,
                watch=self._watch,
                tell=self._on_note,
            )
        )
        self._on_lab(lab)
        self.parts = self._surroundings(lab, self._clients)
        return self.parts

    def without_conversations(self) -> Surroundings:
        """Ends every conversation. That disconnects every session in the databases, ours included."""
        assert self.parts is not None
        lab, clients = self.parts.lab, self._clients
        assert clients is not None
        _release(self.parts)
        reset.conversations(lab)
        self.parts = self._surroundings(lab, clients)
        return self.parts

    def close_lab(self) -> None:
        """The clients stay: they connect to whatever lab comes next."""
        parts, self.parts = self.parts, None
        if parts is not None:
            _release(parts)
        exits, self._exits = self._exits, contextlib.ExitStack()
        with contextlib.suppress(Exception):
            exits.close()

    def close(self) -> None:
        """Ends lab and clients; never raises."""
        self.close_lab()
        clients, self._clients = self._clients, None
        if clients is not None:
            with contextlib.suppress(Exception):
                clients.close()

    def say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._on_note(text)

    def _surroundings(self, lab: Lab, clients: Clients) -> Surroundings:
        return Surroundings(
            lab,
            clients,
            Observers(lab.instances, tell=self.say_once),
            lab.target.connect(),
            [instance.connect() for instance in lab.initiators],
        )


def _release(parts: Surroundings) -> None:
    parts.observers.close()
    for connection in (parts.target, *parts.initiators):
        with contextlib.suppress(Exception):
            connection.close()
