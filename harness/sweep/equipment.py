"""Equipment that every cell needs beside its dialogs: an open lab, Locust's processes, observers and connections."""

from __future__ import annotations

import contextlib
from pathlib import Path

from harness.lab import interruption, reset
from harness.lab import open as open_lab
from harness.lab.instances import Lab
from harness.lab.opening import Topology
from harness.load.locust_clients import LocustClients
from harness.observe import Observers
from harness.reporting import Reporter
from harness.settings import Settings
from harness.sweep.attempt import Equipment
from harness.sweep.preflight import Preflight


class LabEquipment:
    """Opens the lab, starts Locust, and ends both. Use it from the main thread."""

    def __init__(
        self, settings: Settings, topology: Topology, results: Path, preflight: Preflight, reporter: Reporter
    ) -> None:
        self.parts: Equipment | None = None
        self._settings = settings
        self._topology = topology
        self._results = results
        self._preflight = preflight
        self._reporter = reporter
        self._exits = contextlib.ExitStack()
        self._clients: LocustClients | None = None
        self._noted: set[str] = set()

    def open(self, version: str, initiators: int) -> Equipment:
        """Raises LabError, ScriptError, LoadError or ChildError where the lab is not available."""
        if self._clients is None:
            self._clients = LocustClients(log_directory=self._results / "lab" / "logs")
        lab = self._exits.enter_context(
            open_lab(
                self._topology,
                version=version,
                initiators=initiators,
                directory=self._results / "lab",
                driver=self._settings.driver,
                watch=interruption.check,
                tell=self._reporter.note,
            )
        )
        self._preflight.examine(lab)
        self.parts = self._connected(lab, self._clients)
        return self.parts

    def without_conversations(self) -> Equipment:
        """Ends every conversation. That disconnects every session in the databases, so connections are new."""
        assert self.parts is not None and self._clients is not None
        lab = self.parts.lab
        _release(self.parts)
        reset.conversations(lab)
        self.parts = self._connected(lab, self._clients)
        return self.parts

    def close_lab(self) -> None:
        """Ends the lab. The clients stay: they connect to the next one."""
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

    def note_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._reporter.note(text)

    def _connected(self, lab: Lab, clients: LocustClients) -> Equipment:
        return Equipment(
            lab,
            clients,
            Observers(lab.instances, tell=self.note_once),
            lab.target.connect(),
            [instance.connect() for instance in lab.initiators],
        )


def _release(parts: Equipment) -> None:
    parts.observers.close()
    for connection in (parts.target, *parts.initiators):
        with contextlib.suppress(Exception):
            connection.close()
