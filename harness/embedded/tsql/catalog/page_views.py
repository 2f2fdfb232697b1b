"""Pages: what they contain, which tasks wait for their latches, and how long was waited, by class and by index.

Only sys.sysdesend has pages here: its rows are in handle order, 144 on a page. There are no row locks.
"""

from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from operator import add
from types import SimpleNamespace
from typing import Any, NamedTuple

from harness.embedded.broker.database import DATA_FILE, ROWS_PER_PAGE, ConversationEndpoint
from harness.embedded.broker.engine import Engine
from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import MILLISECOND
from harness.embedded.tsql.catalog.object_views import SYSTEM_OBJECTS, partition_id
from harness.embedded.tsql.catalog.view import Context, TableFunction, View
from harness.embedded.tsql.catalog.visibility import everybody

DATA_PAGE = 1  # page_type
CLUSTERED = 1  # index_id
PAGE_LATCHES = "PAGELATCH_"


class IndexOperations(NamedTuple):
    """What was done to an index, and waited for."""

    database_id: int
    object_id: int
    leaf_insert_count: int
    leaf_ghost_count: int
    page_latch_wait_count: int
    page_latch_wait_in_ms: int


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
        return partition_id(self.object_id, CLUSTERED)


def header(engine: Engine, page: Page) -> PageHeader | None:
    """The header of a page, or None if it contains no rows."""
    database = next(
        (candidate for candidate in engine.databases.values() if candidate.database_id == page.database_id), None
    )
    if database is None:
        return None
    pages = Counter([endpoint.page.page_id for endpoint in database.endpoints.values()])
    if page.file_id != DATA_FILE or page.page_id not in pages:
        return None
    before = max((other for other in pages if other < page.page_id), default=0)
    after = min((other for other in pages if other > page.page_id), default=0)
    return PageHeader(page, pages[page.page_id], before, after)


def location(endpoint: ConversationEndpoint) -> bytes:
    """The %%physloc%% of an endpoint in sys.sysdesend: page, file and slot, each little-endian."""
    page, slot = endpoint.page, endpoint.ordinal % ROWS_PER_PAGE
    return page.page_id.to_bytes(4, "little") + page.file_id.to_bytes(2, "little") + slot.to_bytes(2, "little")


def _page_info(context: Context, database_id: Any, file_id: Any, page_id: Any, mode: Any) -> list[PageHeader]:
    if database_id is None or file_id is None or page_id is None:
        return []
    page_header = header(context.engine, Page(database_id, file_id, page_id))
    if page_header is None:
        return []
    guard, database = context.session.guard, context.engine.databases.by_id(database_id)
    # VIEW DATABASE STATE implies it; before SQL Server 2022 nobody is granted it itself.
    may_see = guard is None or guard.allows(database, "DATABASE", 0, "VIEW DATABASE PERFORMANCE STATE")
    return [page_header] if may_see else []


def _waiting_tasks(context: Context) -> Iterator[SimpleNamespace]:
    engine = context.engine
    now_ns = engine.clock.now_ns
    sessions = {session.task: session for session in context.instance.sessions.values() if session.is_running}
    for task, wait in engine.waits.current.items():
        session = sessions.get(task)  # None for a system task
        duration_ms = (now_ns - wait.started_ns) // MILLISECOND
        yield SimpleNamespace(wait=wait, session_id=session and session.spid, wait_duration_ms=duration_ms)


def _latch_classes(context: Context) -> list[SimpleNamespace]:
    """The latches of pages are SQL Server's class BUFFER. Here there are no others."""
    totals = [total for name, total in context.engine.waits.totals.items() if name.startswith(PAGE_LATCHES)]
    buffer = SimpleNamespace(
        waiting_requests_count=sum(total.waiting_tasks_count for total in totals),
        wait_time_ms=sum(total.wait_ns for total in totals) // MILLISECOND,
        max_wait_time_ms=max((total.max_wait_ns for total in totals), default=0) // MILLISECOND,
    )
    return [buffer]


def _operations(
    context: Context, database_id: Any, object_id: Any, index_id: Any, partition_number: Any
) -> Iterator[tuple[Any, ...]]:
    """Yield the fields of `IndexOperations`.

    They are of the index of sys.sysdesend in each database whose pages a task has waited for, and of the clustered
    indexes of the queues. NULL and 0 mean all; so does an index of -1.
    """
    if index_id not in (None, -1, CLUSTERED) or partition_number not in (None, 0, 1):
        return
    sysdesend = SYSTEM_OBJECTS["sysdesend"]
    for number, total in context.engine.waits.latches.items():
        if database_id in (None, 0, number) and object_id in (None, 0, sysdesend):
            yield IndexOperations(number, sysdesend, 0, 0, total.waiting_tasks_count, total.wait_ns // MILLISECOND)
    for database in context.engine.databases.values():
        if database_id in (None, 0, database.database_id):
            queues = database.catalog.queues.values()
            if object_id not in (None, 0):
                queue = context.queues_by_internal_table.get((database.database_id, object_id))
                queues = () if queue is None else (queue,)
            # Rows that came while the queue was OFF lie in the transmission queue, as SQL Server has it.
            deleted = [queue.next_order - len(queue.blocked) - len(queue.rows) for queue in queues]
            inserted = map(add, deleted, [queue.depth for queue in queues])
            ids = [queue.internal_table_id for queue in queues]
            columns = repeat(database.database_id), ids, inserted, deleted, repeat(0), repeat(0)
            yield from zip(*columns, strict=False)


VIEWS = [
    View(
        "dm_os_waiting_tasks",
        """
        session_id                smallint
        wait_duration_ms          bigint
        wait_type                 nvarchar(60)    <- wait.wait_type
        blocking_session_id       smallint        = NULL
        resource_description      nvarchar(3072)  <- wait.resource_description
        """,
        _waiting_tasks,
        visible=everybody,
    ),
    View(
        "dm_os_latch_stats",
        """
        latch_class             nvarchar(60) NOT NULL  = 'BUFFER'
        waiting_requests_count  bigint
        wait_time_ms            bigint
        max_wait_time_ms        bigint
        """,
        _latch_classes,
        visible=everybody,
    ),
]

FUNCTIONS = [
    TableFunction(
        "dm_db_page_info",
        """
        database_id        int           <- page.database_id
        file_id            int           <- page.file_id
        page_id            int           <- page.page_id
        object_id          int
        index_id           int           = 1
        partition_id       bigint
        page_level         int           = 0
        slot_count         smallint
        prev_page_page_id  int           <- previous
        next_page_page_id  int           <- next
        """,
        _page_info,
        arguments=4,
        since=2019,
    ),
    TableFunction(
        "dm_db_index_operational_stats",
        """
        database_id                smallint
        object_id                  int
        index_id                   int               = 1
        partition_number           int               = 1
        leaf_insert_count          bigint NOT NULL
        leaf_delete_count          bigint NOT NULL   = 0
        leaf_ghost_count           bigint NOT NULL
        row_lock_count             bigint NOT NULL   = 0
        row_lock_wait_count        bigint NOT NULL   = 0
        row_lock_wait_in_ms        bigint NOT NULL   = 0
        page_latch_wait_count      bigint NOT NULL
        page_latch_wait_in_ms      bigint NOT NULL
        page_io_latch_wait_count   bigint NOT NULL   = 0
        page_io_latch_wait_in_ms   bigint NOT NULL   = 0
        """,
        _operations,
        arguments=4,
        row=IndexOperations,
    ),
]
