"""The page of `harness matrix --web`: the cells, the time left, the figures so far, and the instances.

`serving` yields a reporter that passes everything on to the console's and remembers it. The page asks once a second for
what there is. The numbers of cells are those of the journal, read anew where it has grown, so that an interrupted run
shows what it had. The browser draws the charts from them; figures of the results folder follow as they are drawn.

The tabs Queues, Monitors, Waits and Latches are those of `harness ui`. They show what the run samples and records, so
that a sweep with a page asks the instances no more than one without.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from flask import Flask, Response, jsonify, send_from_directory

from harness.definitions.lab_kinds import LabKind
from harness.definitions.matrix import Cell, label
from harness.files import journal
from harness.load.messages import Looked
from harness.load.pages import guard
from harness.load.pages.looks import TABS, LooksPage
from harness.observe.cell_looks import CellReporter
from harness.observe.looks import Look
from harness.output.reporting import Reporter, TimeLeft, TimeLeftByCells

NEXT_SHOWN = 5
NOTES_KEPT = 50
PATIENCE_S = 2.0  # an open page asks every second
# Once more after the end, for figures that the last answer named.
_ASKS_AFTER_END = 2


class SweepPage(CellReporter):
    """Reports to another reporter too, and keeps what the page shows."""

    def __init__(self, console: Reporter, address: str) -> None:
        super().__init__(console)
        self._address = address
        self._lock = threading.Lock()
        self.app = Flask("harness.load.pages", static_folder=None)
        guard.protect(self.app)
        self._looks_page = LooksPage(self.app, of_sweep=True)
        self._add_routes()
        self._results: Path | None = None
        self._cells: Sequence[str] = ()
        self._entries: list[journal.Entry] = []
        self._journal_bytes = 0
        self._stage: dict[str, Any] = {}
        self._left: TimeLeft = TimeLeftByCells()
        self._notes: deque[str] = deque(maxlen=NOTES_KEPT)
        self._ended = ""
        self._asked_at_s = float("-inf")
        self._asks = threading.Semaphore(0)

    def note(self, text: str) -> None:
        self._notes.append(text)
        super().note(text)

    def sweep(self, results: Path, cells: Sequence[str], kind: LabKind) -> None:
        self._results, self._cells = results, cells
        self._looks_page.show_lab(kind, kind.whose_numbers)
        super().sweep(results, cells, kind)
        self.note(f"page: {self._address}")

    def begin(
        self, total: int, completed: int, left: TimeLeft | None = None, *, unit: str = "cell", every: int = 1
    ) -> None:
        self._left = left or TimeLeftByCells()
        self._left.start(time.monotonic())
        self._stage = {
            "unit": unit,
            "total": total,
            "done": completed,
            "left_s": None,
            "phase": "",
            "messages_per_s": None,
        }
        super().begin(total, completed, left, unit=unit, every=every)

    def phase(self, text: str) -> None:
        self._stage["phase"] = text
        cell, _, phase = text.partition(": ")
        if phase == "settle":  # its load begins
            self._looks_page.run_begins(time.time(), cell)
        super().phase(text)

    def rate(self, messages_per_s: float) -> None:
        self._stage["messages_per_s"] = messages_per_s
        super().rate(messages_per_s)

    def show(self, look: Look) -> None:
        self._looks_page.add(Looked.of(look))

    def cell_done(self, number: int, cell: str, outcome: str, text: str) -> None:
        self._left.cell_done(time.monotonic(), cell)
        self._stage |= {"done": number, "left_s": self._left.left_s(self._stage["total"] - number)}
        super().cell_done(number, cell, outcome, text)

    def finish(self, text: str) -> None:
        """Say how the command ended, and wait until a page that is open has shown it."""
        self._stage = {}
        self._ended = text
        if time.monotonic() - self._asked_at_s > PATIENCE_S:
            return
        while self._asks.acquire(blocking=False):
            pass
        for _ in range(_ASKS_AFTER_END):
            if not self._asks.acquire(timeout=PATIENCE_S):
                return  # it was closed

    def state(self) -> dict[str, Any]:
        """Return what the page shows, as JSON has it."""
        with self._lock:
            entries = self._read_journal()
        cell_names = set(self._cells)
        last = {name: entry for entry in entries if (name := label(entry.cell, entry.block)) in cell_names}
        completed = {name for name, entry in last.items() if entry.outcome == "completed"}
        stage = dict(self._stage)
        now = stage.get("phase", "").partition(": ")[0]
        place = self._cells.index(now) if now in self._cells else -1
        coming = [name for name in self._cells[place + 1 :] if name not in last] if stage.get("unit") == "cell" else []
        return {
            "results": str(self._results or ""),
            "cells": len(self._cells),
            "completed": [
                asdict(Cell.parse(entry.cell))
                | {"name": name, "sent_per_s": entry.sent_per_s, "processed_per_s": entry.processed_per_s}
                | {"block": entry.block, "state": entry.state, "state_reason": entry.state_reason}
                for name, entry in last.items()
                if name in completed
            ],
            "failed": [
                {"name": name, "reason": last[name].reason} for name in last if name not in completed and name != now
            ],
            "now": now if place >= 0 else "",
            "next": coming[:NEXT_SHOWN],
            "stage": stage,
            "notes": list(self._notes),
            "figures": [path.name for path in self._figures()],
            "ended": self._ended,
        }

    def _add_routes(self) -> None:
        """The page, what it asks for, and the drawn figures; the tabs have routes of their own."""
        tabs = "".join(f'<button role="tab">{tab.title}</button>' for tab in TABS)
        html = files("harness.load.pages").joinpath("sweep.html").read_text(encoding="utf-8")
        html = html.replace("LOOKS_TABS", tabs)
        self.app.add_url_rule("/", "page", lambda: Response(html, mimetype="text/html"))
        self.app.add_url_rule("/state", "state", self._show_state)
        self.app.add_url_rule("/figures/<name>", "figure", self._show_figure)

    def _show_state(self) -> Response:
        answer = jsonify(self.state())
        self._asked_at_s = time.monotonic()
        self._asks.release()
        return answer

    def _show_figure(self, name: str) -> Response:
        return send_from_directory((self._results or Path()).absolute() / "figures", name)

    def _figures(self) -> list[Path]:
        """The drawn figures that are newer than the journal: those of an interrupted run lack its last cells."""
        if self._results is None or not (self._results / journal.NAME).exists():
            return []
        began_at_s = (self._results / journal.NAME).stat().st_mtime
        return sorted(path for path in (self._results / "figures").glob("*.png") if path.stat().st_mtime >= began_at_s)

    def _read_journal(self) -> list[journal.Entry]:
        if self._results is None:
            return []
        path = self._results / journal.NAME
        length = path.stat().st_size if path.exists() else 0
        if length != self._journal_bytes:
            self._entries, self._journal_bytes = list(journal.read(path)), length
        return self._entries


@contextmanager
def serving(console: Reporter, port: int) -> Iterator[SweepPage]:
    """Serve the page of what is reported in the block. The port must be free: else the server ends the process."""
    logging.getLogger("harness.load.pages.looks").setLevel(logging.ERROR)  # else what a look lacks is a line
    page = SweepPage(console, f"http://{guard.LOOPBACK}:{port}")
    with guard.listening(page.app, port):
        yield page
