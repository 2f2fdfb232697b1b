"""Find the object to which a page belongs.

Uses `sys.dm_db_page_info`, which exists since SQL Server 2019, else DBCC PAGE. A method that is refused is not tried
again. The lookup follows the measured window, so a page may belong to another object than when a task waited for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.lab import scripts
from harness.lab.scripts import ScriptError, is_refusal

if TYPE_CHECKING:
    import pyodbc

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


Method = Callable[["pyodbc.Connection", "Page"], tuple[int, int] | None]


class Page(NamedTuple):
    database_id: int
    file_id: int
    page_id: int


class PageObject(NamedTuple):
    name: str  # empty: not known
    index_id: int


UNKNOWN = PageObject("", 0)


class PageObjects:
    """Finds the objects of one instance's pages. Caches the names of objects, not the objects of pages."""

    def __init__(self) -> None:
        self._methods: dict[int, list[Method]] = {}  # not refused yet, by database, because rights differ
        self._names: dict[tuple[int, int], str] = {}
        self.refusal = ""  # why the objects of some database's pages are unknown

    def resolve(
        self, connection: pyodbc.Connection, pages: Iterable[Page], *, within_s: float
    ) -> dict[Page, PageObject]:
        """Find the objects of as many pages as the time allows, in the order given. Unknown ones are left out."""
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
        methods = self._methods.setdefault(page.database_id, [_by_page_info, _by_dbcc_page])
        while methods:
            try:
                return methods[0](connection, page)
            except ScriptError as error:
                if not is_refusal(error):
                    raise
                del methods[0]
                if not methods:
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
    """Name an object: `sys.sysdesend`, `queue dbo.MySSBLabTestQueue`; prefixed with another database's name."""
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
    """Name an allocation page by its position in the file."""
    if page_id == 1 or (page_id and page_id % _PFS_INTERVAL == 0):
        return "allocation (PFS)"
    place = page_id % _GAM_INTERVAL - (0 if page_id >= _GAM_INTERVAL else 2)
    return {0: "allocation (GAM)", 1: "allocation (SGAM)"}.get(place, "allocation")


def _variables(page: Page) -> dict[str, str]:
    return {"DatabaseId": str(page.database_id), "FileId": str(page.file_id), "PageId": str(page.page_id)}


def _by_page_info(connection: pyodbc.Connection, page: Page) -> tuple[int, int] | None:
    rows = scripts.rows(connection, "observe/page_object.sql", _variables(page))
    return (int(rows[0]["object_id"]), int(rows[0]["index_id"])) if rows else None


def _by_dbcc_page(connection: pyodbc.Connection, page: Page) -> tuple[int, int] | None:
    rows = scripts.rows(connection, "observe/page_header.sql", _variables(page))
    fields = {row["Field"].strip(): row["VALUE"] for row in rows}
    object_id = fields.get("Metadata: ObjectId")
    return (int(object_id), int(fields.get("Metadata: IndexId", 0))) if object_id is not None else None
