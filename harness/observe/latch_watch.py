"""Sample which task waits for which page, ten times a second in the measured window.

Each instance has a thread and a connection for this, so that it does not delay the observer's samples. The objects of
the pages are looked up after the window, while clients stop and queues drain.
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
from harness.lab.scripts import ScriptError, is_refusal
from harness.observe.observer import ReconnectingConnection
from harness.observe.page_objects import UNKNOWN, Page, PageObject, PageObjects

if TYPE_CHECKING:
    import pyodbc

SAMPLE_EVERY_S = 0.1
SAMPLE_TIMEOUT_S = 10
# Tasks may have waited for many pages of a queue's table. Those with the most waits come first.
RESOLVE_WITHIN_S = 10.0
# Some versions append more about the latch.
_RESOURCE = re.compile(r"\s*(\d+):(\d+):(\d+)")


class LatchWait(NamedTuple):
    """A task that waits for a page, in one sample."""

    sampled_at_ns: int
    session_id: int  # 0: a system task
    wait_type: str
    wait_duration_ms: int
    page: Page


@dataclass
class Watched:
    """The samples of one window."""

    sampled_at_ns: list[int] = field(default_factory=list)
    waits: list[LatchWait] = field(default_factory=list)
    objects: Mapping[Page, PageObject] = field(default_factory=dict)
    unresolved: str = ""  # why the objects of pages are unknown
    refusal: str = ""  # why the instance does not show waits: there is nothing to record
    failure: str = ""  # why sampling ended early; earlier samples are kept

    def object_of(self, wait: LatchWait) -> PageObject:
        return self.objects.get(wait.page, UNKNOWN)


def take_sample(connection: pyodbc.Connection, watched: Watched, at_ns: int) -> None:
    """Add the tasks that wait for a page now."""
    rows = scripts.rows(connection, "observe/page_latch_waits.sql", {})
    watched.sampled_at_ns.append(at_ns)
    for row in rows:
        resource = _RESOURCE.match(row["resource_description"] or "")
        if resource is not None:
            page = Page(*(int(part) for part in resource.groups()))
            session, duration_ms = row["session_id"] or 0, int(row["wait_duration_ms"])
            watched.waits.append(LatchWait(at_ns, session, row["wait_type"], duration_ms, page))


def resolve(connection: pyodbc.Connection, watched: Watched, objects: PageObjects, *, within_s: float) -> None:
    """Look up the objects of the pages, those with the most waits first."""
    often = Counter(wait.page for wait in watched.waits).most_common()
    watched.objects = objects.resolve(connection, [page for page, _ in often], within_s=within_s)
    watched.unresolved = objects.refusal


class LatchWatch:
    """Watches one instance. Call `prepare`, `begin` and `end` for each cell."""

    def __init__(self, instance: Instance, interval_s: float = SAMPLE_EVERY_S) -> None:
        self.instance = instance
        self._interval_s = interval_s
        self._connection = ReconnectingConnection(instance, query_timeout_s=SAMPLE_TIMEOUT_S)
        self._objects = PageObjects()
        self._thread: threading.Thread | None = None

    def prepare(self) -> None:
        """Connect before the window, so that only samples fall into it."""
        self._abandon()
        self._go, self._stop, self._outcome = threading.Event(), threading.Event(), Future[Watched]()
        self._thread = threading.Thread(target=self._run, name=f"latches of {self.instance.name}", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        self._go.set()

    def end(self) -> Future[Watched]:
        """Take no more samples. The future has a result once the objects of the pages are known."""
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
            thread.join(timeout=SAMPLE_TIMEOUT_S + RESOLVE_WITHIN_S)

    # In the thread

    def _run(self) -> None:
        watched = Watched()
        try:
            connection = self._connection.get()
            self._go.wait()
            is_over = False
            while not is_over:  # sample even the shortest window once
                began = time.monotonic()
                take_sample(connection, watched, time.time_ns())
                is_over = self._stop.wait(max(0.0, began + self._interval_s - time.monotonic()))
            resolve(connection, watched, self._objects, within_s=RESOLVE_WITHIN_S)
        except Exception as error:
            if isinstance(error, ScriptError) and is_refusal(error):
                watched.refusal = str(error)
            else:
                self._connection.drop()
                watched.failure = error_text(error)
        self._outcome.set_result(watched)
