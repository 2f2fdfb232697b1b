"""Who waits for which page, looked at ten times a second in the measured window.

A thread and a connection an instance, so that a look neither waits for the samples nor they for it. Pages become
objects when the window is over, while clients stop and queues drain.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from harness.lab import scripts
from harness.lab.error_remedies import error_text
from harness.lab.instances import Instance
from harness.lab.scripts import ScriptError
from harness.observe.page_objects import UNKNOWN, Page, PageObject, PageObjects
from harness.observe.reconnecting import ReconnectingConnection
from harness.observe.refusals import is_refusal

if TYPE_CHECKING:
    import pyodbc

LOOK_S = 0.1
LOOK_TIMEOUT_S = 10
# Many pages of a queue table may have been waited for; those waited for most come first.
RESOLVE_WITHIN_S = 10.0
# Behind it some versions say more about the latch.
_RESOURCE = re.compile(r"\s*(\d+):(\d+):(\d+)")


class LatchWait(NamedTuple):
    """One task waiting for a page, in one look."""

    sampled_at_ns: int
    session_id: int  # 0: a task of the system's own
    wait_type: str
    wait_duration_ms: int
    page: Page


@dataclass
class Watched:
    """What was seen in one window."""

    looks_at_ns: list[int] = field(default_factory=list)
    waits: list[LatchWait] = field(default_factory=list)
    objects: Mapping[Page, PageObject] = field(default_factory=dict)
    unresolved: str = ""  # why pages do not become objects on this instance
    refusal: str = ""  # the instance does not show who waits: there is nothing to record
    failure: str = ""  # broken off; what was seen before stays

    def object_of(self, wait: LatchWait) -> PageObject:
        return self.objects.get(wait.page, UNKNOWN)


def look(connection: pyodbc.Connection, watched: Watched, at_ns: int) -> None:
    """Adds who waits now."""
    rows = scripts.rows(connection, "observe/page_latch_waits.sql", {})
    watched.looks_at_ns.append(at_ns)
    for row in rows:
        resource = _RESOURCE.match(row["resource_description"] or "")
        if resource is not None:
            page = Page(*(int(part) for part in resource.groups()))
            session, duration_ms = row["session_id"] or 0, int(row["wait_duration_ms"])
            watched.waits.append(LatchWait(at_ns, session, row["wait_type"], duration_ms, page))


def resolve(connection: pyodbc.Connection, watched: Watched, objects: PageObjects, *, within_s: float) -> None:
    """What lies on the pages, those that were waited for most first."""
    often = Counter(wait.page for wait in watched.waits).most_common()
    watched.objects = objects.resolve(connection, [page for page, _ in often], within_s=within_s)
    watched.unresolved = objects.refusal


class LatchWatch:
    """Watches one instance; for each cell `prepare`, `begin`, `end`."""

    def __init__(self, instance: Instance, interval_s: float = LOOK_S) -> None:
        self.instance = instance
        self._interval_s = interval_s
        self._connection = ReconnectingConnection(instance, query_timeout_s=LOOK_TIMEOUT_S)
        self._objects = PageObjects()
        self._thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Connects, so that nothing but looks falls into the window."""
        self._abandon()
        self._go, self._stop, self._outcome = threading.Event(), threading.Event(), Future[Watched]()
        self._thread = threading.Thread(target=self._run, name=f"latches of {self.instance.name}", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._go.set()

    def end(self) -> Future[Watched]:
        """No further look; the future is there when the pages are resolved."""
        self._stop.set()
        return self._outcome

    def close(self) -> None:
        self._abandon()
        self._connection.drop()

    def _abandon(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._stop.set()
            self._go.set()
            thread.join(timeout=LOOK_TIMEOUT_S + RESOLVE_WITHIN_S)

    # In the thread

    def _run(self) -> None:
        watched = Watched()
        try:
            connection = self._connection.get()
            self._go.wait()
            is_over = False
            while not is_over:  # even the shortest window is looked at once
                began = time.monotonic()
                look(connection, watched, time.time_ns())
                is_over = self._stop.wait(max(0.0, began + self._interval_s - time.monotonic()))
            resolve(connection, watched, self._objects, within_s=RESOLVE_WITHIN_S)
        except Exception as error:
            if isinstance(error, ScriptError) and is_refusal(error):
                watched.refusal = str(error)
            else:
                self._connection.drop()
                watched.failure = error_text(error)
        self._outcome.set_result(watched)
