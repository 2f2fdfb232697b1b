"""Sample which task waits for which page, ten times a second in the measured window, and find the pages' objects.

Each instance has a thread and a connection for this, so that it does not delay the observer's samples. The objects of
the pages are looked up after the window, while clients stop and queues drain.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.error_remedies import error_text
from harness.lab.instances import Instance, ReconnectingConnection
from harness.lab.scripts import is_broken, is_refusal

SAMPLE_EVERY_S = 0.1
SAMPLE_TIMEOUT_S = 10
# Tasks may have waited for many pages of a queue's table. Those with the most waits come first.
RESOLVE_WITHIN_S = 10.0
REFUSALS_IN_A_ROW = 3
# Some versions append more about the latch.
_RESOURCE = re.compile(r"\s*(\d+):(\d+):(\d+)")
# sys.objects has these names too, but does not show them to every login.
SYSTEM_TABLES = {
    67: "sys.sysremsvcbinds",
    68: "sys.sysxmitqueue",
    69: "sys.sysrts",
    71: "sys.sysconvgroup",
    72: "sys.sysdesend",
    73: "sys.sysdercv",
    87: "sys.sysxmitbody",
}
# Allocation pages have this object id, which no table has.
ALLOCATION = 99
# The number of pages that one allocation page describes. It lies at the same place in each such interval.
_PFS_INTERVAL, _GAM_INTERVAL = 8088, 511232


Method = Callable[["Connection", "Page"], tuple[int, int] | None]


class Page(NamedTuple):
    database_id: int
    file_id: int
    page_id: int


class PageObject(NamedTuple):
    name: str  # empty: not known
    index_id: int


UNKNOWN = PageObject("", 0)


class PageObjects:
    """Finds the objects of one instance's pages. Caches the names of objects, not the objects of pages.

    Uses `sys.dm_db_page_info`, which exists since SQL Server 2019, else DBCC PAGE. A method that is refused for several
    pages in a row is not tried again: a single page may be one that it cannot read. The lookup follows the window, so a
    page may belong to another object than when a task waited for it.
    """

    def __init__(self) -> None:
        # The refusals in a row of each method that is still tried, by database, because rights differ.
        self._methods: dict[int, dict[Method, int]] = {}
        self._refusals: dict[int, str] = {}  # the last one, by database
        self._names: dict[tuple[int, int], str] = {}
        self.unresolved = ""  # why the last call of `resolve` left pages out

    def resolve(self, connection: Connection, pages: Iterable[Page], *, within_s: float) -> dict[Page, PageObject]:
        """Find the objects of as many pages as the time allows, in the order given. Unknown ones are left out."""
        deadline = time.monotonic() + within_s
        objects: dict[Page, PageObject] = {}
        self.unresolved = ""
        for page in pages:
            if time.monotonic() > deadline:
                break
            try:
                ids = self._ids(connection, page)
                if ids is not None:
                    object_id, index_id = ids
                    objects[page] = PageObject(self._name(connection, page, object_id), index_id)
            except ScriptError as error:
                if is_broken(error):
                    raise
                self.unresolved = str(error)  # this page cannot be read, or nobody says in time what it is
        return objects

    def _ids(self, connection: Connection, page: Page) -> tuple[int, int] | None:
        methods = self._methods.setdefault(page.database_id, {_by_page_info: 0, _by_dbcc_page: 0})
        for method in list(methods):
            try:
                ids = method(connection, page)
            except ScriptError as error:
                if not is_refusal(error):
                    raise
                self._refusals[page.database_id] = str(error)
                methods[method] += 1
                if methods[method] == REFUSALS_IN_A_ROW:
                    del methods[method]
            else:
                methods[method] = 0
                return ids
        self.unresolved = self._refusals[page.database_id]
        return None

    def _name(self, connection: Connection, page: Page, object_id: int) -> str:
        if object_id == ALLOCATION:
            return allocation_name(page.page_id)
        key = (page.database_id, object_id)
        if key not in self._names:
            variables = {"DatabaseId": str(page.database_id), "ObjectId": str(object_id)}
            self._names[key] = object_name(object_id, scripts.rows(connection, "observe/object_name.sql", variables)[0])
        return self._names[key]


def object_name(object_id: int, row: Mapping[str, Any]) -> str:
    """Name an object as `local_name` does; prefixed with another database's name."""
    name = local_name(object_id, row)
    return name if row["is_here"] or not name else f"{row['database_name']}.{name}"


def local_name(object_id: int, row: Mapping[str, Any]) -> str:
    """Name an object of this database: `sys.sysdesend`, `queue dbo.MySSBLabTestQueue`; empty where it has no name."""
    if row["queue_name"]:
        return f"queue {row['queue_schema_name']}.{row['queue_name']}"
    if object_id in SYSTEM_TABLES:
        return SYSTEM_TABLES[object_id]
    return f"{row['schema_name'] or '?'}.{row['object_name']}" if row["object_name"] else ""


def allocation_name(page_id: int) -> str:
    """Name an allocation page by its position in the file."""
    if page_id == 1 or (page_id and page_id % _PFS_INTERVAL == 0):
        return "allocation (PFS)"
    place = page_id % _GAM_INTERVAL - (0 if page_id >= _GAM_INTERVAL else 2)
    return {0: "allocation (GAM)", 1: "allocation (SGAM)"}.get(place, "allocation")


def _variables(page: Page) -> dict[str, str]:
    return {"DatabaseId": str(page.database_id), "FileId": str(page.file_id), "PageId": str(page.page_id)}


def _by_page_info(connection: Connection, page: Page) -> tuple[int, int] | None:
    rows = scripts.rows(connection, "observe/page_object.sql", _variables(page))
    return _ids_of(rows[0]["object_id"], rows[0]["index_id"]) if rows else None


def _by_dbcc_page(connection: Connection, page: Page) -> tuple[int, int] | None:
    rows = scripts.rows(connection, "observe/page_header.sql", _variables(page))
    fields = {row["Field"].strip(): row["VALUE"] for row in rows}
    return _ids_of(fields.get("Metadata: ObjectId"), fields.get("Metadata: IndexId"))


def _ids_of(object_id: Any, index_id: Any) -> tuple[int, int] | None:
    """Return what a page says it belongs to; None if it says nothing: both columns may be NULL."""
    return (int(object_id), int(index_id or 0)) if object_id is not None else None


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


def take_sample(connection: Connection, watched: Watched, at_ns: int) -> None:
    """Add the tasks that wait for a page now."""
    rows = scripts.rows(connection, "observe/page_latch_waits.sql", {})
    watched.sampled_at_ns.append(at_ns)
    for row in rows:
        resource = _RESOURCE.match(row["resource_description"] or "")
        if resource is not None:
            page = Page(*(int(part) for part in resource.groups()))
            session, duration_ms = row["session_id"] or 0, int(row["wait_duration_ms"])
            watched.waits.append(LatchWait(at_ns, session, row["wait_type"], duration_ms, page))


def resolve(connection: Connection, watched: Watched, objects: PageObjects, *, within_s: float) -> None:
    """Look up the objects of the pages, those with the most waits first."""
    often = Counter(wait.page for wait in watched.waits).most_common()
    watched.objects = objects.resolve(connection, [page for page, _ in often], within_s=within_s)
    watched.unresolved = objects.unresolved


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
            thread.join(timeout=0 if self.instance.silence else SAMPLE_TIMEOUT_S + RESOLVE_WITHIN_S)

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
