"""From the page that a task waits for to the object it belongs to.

`sys.dm_db_page_info` where there is one (SQL Server 2019), else DBCC PAGE; a way that is refused is not tried again.
Asked after the measured window, so a page of a queue or table may have changed hands since it was waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.lab import scripts
from harness.lab.scripts import ScriptError
from harness.observe.refusals import is_refusal

if TYPE_CHECKING:
    import pyodbc

# sys.objects tells their names too, but not to every login.
SYSTEM_TABLES = {
    67: "sys.sysremsvcbinds",
    68: "sys.sysxmitqueue",
    69: "sys.sysrts",
    71: "sys.sysconvgroup",
    72: "sys.sysdesend",
    73: "sys.sysdercv",
    87: "sys.sysxmitbody",
}
# Pages of the allocation system carry this object id, which no table has.
ALLOCATION = 99
# How many pages one such page speaks for: the first of them stands at the same place in each stretch.
_PFS_INTERVAL, _GAM_INTERVAL = 8088, 511232


Way = Callable[["pyodbc.Connection", "Page"], tuple[int, int] | None]


class Page(NamedTuple):
    database_id: int
    file_id: int
    page_id: int


class PageObject(NamedTuple):
    name: str  # empty: not known
    index_id: int


UNKNOWN = PageObject("", 0)


class PageObjects:
    """Resolves the pages of one instance; remembers the names of objects, not whose a page was."""

    def __init__(self) -> None:
        self._ways: dict[int, list[Way]] = {}  # left, by database: rights differ
        self._names: dict[tuple[int, int], str] = {}
        self.refusal = ""  # why pages of some database cannot be resolved

    def resolve(
        self, connection: pyodbc.Connection, pages: Iterable[Page], *, within_s: float
    ) -> dict[Page, PageObject]:
        """As many as the time allows, in the order given; those without an answer are left out."""
        deadline = time.monotonic() + within_s
        found: dict[Page, PageObject] = {}
        for page in pages:
            if time.monotonic() > deadline:
                break
            ids = self._ids(connection, page)
            if ids is not None:
                object_id, index_id = ids
                found[page] = PageObject(self._name(connection, page, object_id), index_id)
        return found

    def _ids(self, connection: pyodbc.Connection, page: Page) -> tuple[int, int] | None:
        ways = self._ways.setdefault(page.database_id, [_of_page_info, _of_dbcc_page])
        while ways:
            try:
                return ways[0](connection, page)
            except ScriptError as error:
                if not is_refusal(error):
                    raise
                del ways[0]
                if not ways:
                    self.refusal = str(error)
        return None

    def _name(self, connection: pyodbc.Connection, page: Page, object_id: int) -> str:
        if object_id == ALLOCATION:
            return allocation_name(page.page_id)
        key = (page.database_id, object_id)
        if key not in self._names:
            variables = {"DatabaseId": str(page.database_id), "ObjectId": str(object_id)}
            self._names[key] = object_name(object_id, scripts.rows(connection, "observe/object_name.sql", variables)[0])
        return self._names[key]


def object_name(object_id: int, row: Mapping[str, Any]) -> str:
    """`sys.sysdesend`, `dbo.messageDrop`, `queue dbo.MySSBLabTestQueue`; of other databases with theirs before it."""
    if row["queue_name"]:
        name = f"queue {row['queue_schema_name']}.{row['queue_name']}"
    elif object_id in SYSTEM_TABLES:
        name = SYSTEM_TABLES[object_id]
    elif row["object_name"]:
        name = f"{row['schema_name'] or '?'}.{row['object_name']}"
    else:
        return ""
    return name if row["is_here"] else f"{row['database_name']}.{name}"


def allocation_name(page_id: int) -> str:
    if page_id == 1 or (page_id and page_id % _PFS_INTERVAL == 0):
        return "allocation (PFS)"
    place = page_id % _GAM_INTERVAL - (0 if page_id >= _GAM_INTERVAL else 2)
    return {0: "allocation (GAM)", 1: "allocation (SGAM)"}.get(place, "allocation")


def _variables(page: Page) -> dict[str, str]:
    return {"DatabaseId": str(page.database_id), "FileId": str(page.file_id), "PageId": str(page.page_id)}


def _of_page_info(connection: pyodbc.Connection, page: Page) -> tuple[int, int] | None:
    rows = scripts.rows(connection, "observe/page_object.sql", _variables(page))
    return (int(rows[0]["object_id"]), int(rows[0]["index_id"])) if rows else None


def _of_dbcc_page(connection: pyodbc.Connection, page: Page) -> tuple[int, int] | None:
    rows = scripts.rows(connection, "observe/page_header.sql", _variables(page))
    fields = {row["Field"].strip(): row["VALUE"] for row in rows}
    object_id = fields.get("Metadata: ObjectId")
    return (int(object_id), int(fields.get("Metadata: IndexId", 0))) if object_id is not None else None
