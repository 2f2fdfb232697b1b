"""Pages: what they contain, which tasks wait for their latches, and how long was waited.

Only sys.sysdesend has pages here: its rows are in handle order, 144 on a page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from harness.embedded.broker.database import DATA_FILE, ROWS_PER_PAGE, ConversationEndpoint
from harness.embedded.broker.engine import Engine
from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.runtime.waits import CurrentWait
from harness.embedded.sqltypes import SqlType
from harness.embedded.tsql.catalog.object_views import SYSTEM_OBJECTS
from harness.embedded.tsql.catalog.view import (
    Context,
    TableFunction,
    View,
    attribute,
    bigint,
    bit,
    column,
    int_,
    nvarchar,
    smallint,
)
from harness.embedded.tsql.instance.instance import ConnectedSession

DATA_PAGE = 1  # page_type
CLUSTERED = 1  # index_id
PAGE_LATCHES = "PAGELATCH_"


class PageHeader(NamedTuple):
    """The header of a page of sys.sysdesend."""

    page: Page
    slot_count: int
    previous: int  # page of the same table, 0 if there is none
    next: int

    @property
    def object_id(self) -> int:
        return SYSTEM_OBJECTS["sysdesend"]

    @property
    def partition_id(self) -> int:
        """The id in sys.partitions."""
        return self.object_id * 65536 + CLUSTERED


def header(engine: Engine, page: Page) -> PageHeader | None:
    """The header of a page, or None if it contains no rows."""
    database = next((one for one in engine.databases.values() if one.database_id == page.database_id), None)
    if database is None:
        return None
    pages = Counter([endpoint.page.page_id for endpoint in database.endpoints.values()])
    if page.file_id != DATA_FILE or page.page_id not in pages:
        return None
    before = max((one for one in pages if one < page.page_id), default=0)
    after = min((one for one in pages if one > page.page_id), default=0)
    return PageHeader(page, pages[page.page_id], before, after)


def location(endpoint: ConversationEndpoint) -> bytes:
    """The %%physloc%% of an endpoint in sys.sysdesend: page, file and slot, each little-endian."""
    page, slot = endpoint.page, endpoint.ordinal % ROWS_PER_PAGE
    return page.page_id.to_bytes(4, "little") + page.file_id.to_bytes(2, "little") + slot.to_bytes(2, "little")


def _page_info(context: Context, database_id: Any, file_id: Any, page_id: Any, mode: Any) -> list[PageHeader]:
    if database_id is None or file_id is None or page_id is None:
        return []
    found = header(context.engine, Page(database_id, file_id, page_id))
    return [] if found is None else [found]


class WaitingTask(NamedTuple):
    wait: CurrentWait
    session: ConnectedSession | None  # None for a system task
    now_ns: int


def _waiting_tasks(context: Context) -> Iterator[WaitingTask]:
    engine = context.engine
    now_ns = engine.clock.now_ns
    sessions = {session.task: session for session in context.instance.sessions.values() if session.is_running}
    for task, wait in engine.waits.current.items():
        yield WaitingTask(wait, sessions.get(task), now_ns)


def _latch_classes(context: Context) -> list[tuple[str, int, int, int]]:
    """The latches of pages are SQL Server's class BUFFER. Here there are no others."""
    totals = [total for name, total in context.engine.waits.totals.items() if name.startswith(PAGE_LATCHES)]
    return [
        (
            "BUFFER",
            sum(total.waiting_tasks_count for total in totals),
            sum(total.wait_ns for total in totals),
            max((total.max_wait_ns for total in totals), default=0),
        )
    ]


VIEWS = [
    View(
        "dm_os_waiting_tasks",
        [
            column("waiting_task_address", SqlType("varbinary", length=8), None),
            column("session_id", smallint, lambda row: None if row.session is None else row.session.spid),
            column("exec_context_id", int_, 0),
            column("wait_duration_ms", bigint, lambda row: (row.now_ns - row.wait.started_ns) // MILLISECOND),
            attribute("wait_type", nvarchar(60), "wait.wait_type"),
            column("resource_address", SqlType("varbinary", length=8), None),
            column("blocking_task_address", SqlType("varbinary", length=8), None),
            column("blocking_session_id", smallint, None),
            column("blocking_exec_context_id", int_, None),
            attribute("resource_description", nvarchar(3072), "wait.resource_description"),
        ],
        _waiting_tasks,
    ),
    View(
        "dm_os_latch_stats",
        [
            column("latch_class", nvarchar(60), lambda row: row[0], nullable=False),
            column("waiting_requests_count", bigint, lambda row: row[1]),
            column("wait_time_ms", bigint, lambda row: row[2] // MILLISECOND),
            column("max_wait_time_ms", bigint, lambda row: row[3] // MILLISECOND),
        ],
        _latch_classes,
    ),
]

FUNCTIONS = [
    TableFunction(
        "dm_db_page_info",
        [
            attribute("database_id", int_, "page.database_id"),
            attribute("file_id", int_, "page.file_id"),
            attribute("page_id", int_, "page.page_id"),
            column("page_type", int_, DATA_PAGE),
            column("page_type_desc", nvarchar(64), None),
            attribute("object_id", int_),
            column("index_id", int_, CLUSTERED),
            attribute("partition_id", bigint),
            column("alloc_unit_id", bigint, None),
            column("page_level", int_, 0),
            attribute("slot_count", smallint),
            column("ghost_rec_count", smallint, 0),
            column("is_iam_pg", bit, 0),
            column("prev_page_file_id", smallint, lambda row: DATA_FILE if row.previous else 0),
            attribute("prev_page_page_id", int_, "previous"),
            column("next_page_file_id", smallint, lambda row: DATA_FILE if row.next else 0),
            attribute("next_page_page_id", int_, "next"),
        ],
        _page_info,
        arguments=4,
        since=2019,
    )
]
