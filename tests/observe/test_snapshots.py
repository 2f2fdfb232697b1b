from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from harness.files.records import FIELDS, columns
from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.observe.snapshots import PAGE_BYTES, Snapshot, at_odds, changes, growth_bytes, pages_read, snapshot

CONNECTION: Any = SimpleNamespace()
INDEX = ("object_id", "schema_name", "object_name", "queue_schema_name", "queue_name", *FIELDS["index_waits"][2:])
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "waits": [{"wait_type": "WRITELOG", "waiting_tasks": 3, "wait_time_ms": 9, "signal_wait_time_ms": 1, "max": 5}],
    "processor_time": [{"processor_time_ms": 700, "cpu_count": 2}],
    "latches": [{"latch_class": "BUFFER", "waiting_requests": 4, "wait_time_ms": 8}],
    "file_io": [
        dict(
            zip(
                (*FIELDS["file_io"][1:10], "size_bytes"),
                ("SSBTarget", "SSBTarget_log", "LOG", 1, 2, 3, 4, 5, 6, None),
                strict=True,
            )
        )
    ],
    "spinlocks": [{"spinlock": "LOCK_HASH", "collisions": 5, "spins": 900, "backoffs": 2, "sleep_ms": 0}],
    "index_waits": [
        dict(zip(INDEX, (object_id, schema, name, *queue, index_id, *range(1, 8)), strict=True))
        for object_id, schema, name, queue, index_id in (
            (72, None, None, (None, None), 1),  # a login may not see the names of system tables
            (900, "sys", "queue_messages_899", ("dbo", "q"), 2),
            (901, "dbo", "messageDrop", (None, None), 0),
            (902, None, None, (None, None), 1),
        )
    ],
}


def refusal(file: str, state: str = "42000") -> ScriptError:
    error = ScriptError(f"observe/{file}.sql: VIEW SERVER STATE permission was denied (error 300)")
    error.__cause__ = Exception(state, "denied")
    return error


@pytest.fixture
def instance(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the queries of sql/observe return rows, or raise the error given for one."""

    def answering(**errors: ScriptError) -> None:
        def rows(connection: object, path: str, variables: object) -> list[dict[str, Any]]:
            file = path.removeprefix("observe/").removesuffix(".sql")
            if file in errors:
                raise errors[file]
            return ANSWERS[file]

        monkeypatch.setattr(scripts, "rows", rows)

    return answering


def test_a_snapshot_holds_all_totals_that_the_instance_shows(instance: Callable[..., None]) -> None:
    instance()
    taken = snapshot(CONNECTION)
    assert taken.waits == {("WRITELOG",): (3, 9, 1, 5)}
    assert (taken.processor_time_ms, taken.processors) == (700, 2)
    assert taken.latches == {("BUFFER",): (4, 8)}
    assert taken.file_io == {("SSBTarget", "SSBTarget_log", "LOG"): (1, 2, 3, 4, 5, 6, 0)}
    indexes = ("sys.sysdesend", 1), ("queue dbo.q", 2), ("dbo.messageDrop", 0), ("object 902", 1)
    assert taken.index_waits == dict.fromkeys(indexes, (1, 2, 3, 4, 5, 6, 7))
    assert taken.spinlocks == {("LOCK_HASH",): (5, 900, 2, 0)}
    assert taken.refusals == {}


def test_what_the_login_may_not_see_is_left_out_with_its_reason(instance: Callable[..., None]) -> None:
    instance(latches=refusal("latches"), processor_time=refusal("processor_time"))
    taken = snapshot(CONNECTION)
    assert taken.latches is None and taken.processor_time_ms is None and taken.waits is not None
    assert list(taken.refusals) == ["processors", "latches"]
    assert set(changes({"target": taken}, {"target": taken})) == {"waits", "file_io", "index_waits", "spinlocks"}


def test_a_broken_connection_is_not_a_refusal(instance: Callable[..., None]) -> None:
    instance(waits=refusal("waits", "08S01"))
    with pytest.raises(ScriptError):
        snapshot(CONNECTION)


class FakeControlGroup:
    def __init__(self, *totals_ms: int | None) -> None:
        self._totals_ms = list(totals_ms)

    def processor_time_ms(self) -> int | None:
        return self._totals_ms.pop(0)


def test_processor_time_of_a_container_is_recorded_beside_that_of_its_instance(instance: Callable[..., None]) -> None:
    instance()
    group: Any = FakeControlGroup(5000, 6000)
    before, after = ({"target": snapshot(CONNECTION, control_group=group)} for _ in range(2))
    beside = {"instance": ["target"], "container_time_ms": [1000], "processor_time_ms": [0]}
    assert changes(before, after)["containers"] == beside


def test_a_container_that_ended_has_no_processor_time(instance: Callable[..., None]) -> None:
    instance()
    group: Any = FakeControlGroup(5000, None)
    before, after = ({"target": snapshot(CONNECTION, control_group=group)} for _ in range(2))
    assert "containers" not in changes(before, after)


@pytest.mark.parametrize("container_ms, own_ms, differs", [(2000, 2101, True), (2000, 1900, False), (100, 149, False)])
def test_more_than_five_percent_and_some_ticks_of_the_clock_are_at_odds(
    container_ms: int, own_ms: int, differs: bool
) -> None:
    columns = {"instance": ["target"], "container_time_ms": [container_ms], "processor_time_ms": [own_ms]}
    assert at_odds(columns) == ["target"] * differs


def test_records_are_differences_and_what_did_not_change_is_left_out() -> None:
    file = ("db", "db_log", "LOG")
    before = {
        "target": Snapshot(
            0,
            {("WRITELOG",): (10, 100, 1, 7), ("LCK_M_X",): (1, 1, 0, 1)},
            500,
            2,
            {("BUFFER",): (5, 50)},
            {file: (1, 10, 1, 1, 100, 1, 4096)},
            {("sys.sysdesend", 1): (1, 2, 3, 4, 5, 6, 7)},
            {("LOCK_HASH",): (5, 900, 2, 0), ("MUTEX",): (1, 1, 0, 0)},
        )
    }
    after = {
        "target": Snapshot(
            10**9,
            {("WRITELOG",): (15, 150, 2, 9), ("LCK_M_X",): (1, 1, 0, 1), ("NEW",): (2, 3, 0, 3)},
            700,
            2,
            {("BUFFER",): (5, 50), ("LOG_MANAGER",): (1, 2)},
            {file: (1, 10, 1, 5, 900, 21, 8192)},
            {("sys.sysdesend", 1): (2, 4, 3, 4, 5, 6, 7), ("dbo.t", 0): (0, 0, 0, 0, 9, 0, 0)},
            {("LOCK_HASH",): (7, 1000, 2, 0), ("MUTEX",): (1, 1, 0, 0)},
        )
    }
    assert changes(before, after) == {
        "waits": {
            "instance": ["target", "target"],
            "wait_type": ["WRITELOG", "NEW"],
            "waiting_tasks": [5, 2],
            "wait_time_ms": [50, 3],
            "signal_wait_time_ms": [1, 0],
        },
        "processors": {"instance": ["target"], "window_ns": [10**9], "processor_time_ms": [200], "processors": [2]},
        "latches": {
            "instance": ["target"],
            "latch_class": ["LOG_MANAGER"],
            "waiting_requests": [1],
            "wait_time_ms": [2],
        },
        "file_io": {
            "instance": ["target"],
            "database_name": ["db"],
            "file_name": ["db_log"],
            "file_type": ["LOG"],
            "reads": [0],
            "bytes_read": [0],
            "read_stall_ms": [0],
            "writes": [4],
            "bytes_written": [800],
            "write_stall_ms": [20],
            "growth_bytes": [4096],
        },
        "index_waits": {
            "instance": ["target", "target"],
            "object_name": ["sys.sysdesend", "dbo.t"],
            "index_id": [1, 0],
            "page_latch_waits": [1, 0],
            "page_latch_wait_ms": [2, 0],
            "page_io_latch_waits": [0, 0],
            "page_io_latch_wait_ms": [0, 0],
            "row_locks": [0, 9],
            "row_lock_waits": [0, 0],
            "row_lock_wait_ms": [0, 0],
        },
        "spinlocks": {
            "instance": ["target"],
            "spinlock": ["LOCK_HASH"],
            "collisions": [2],
            "spins": [100],
            "backoffs": [0],
            "sleep_ms": [0],
        },
    }


def test_pages_read_are_those_of_data_files_of_the_labs_database_and_of_tempdb() -> None:
    files = [
        ("target", "SSBTarget", "data", "ROWS", 3),
        ("target", "SSBTarget", "data2", "ROWS", 4),
        ("target", "tempdb", "tempdev", "ROWS", 10),
        ("target", "SSBTarget", "log", "LOG", 500),
        ("target", "another", "data", "ROWS", 500),
        ("target", None, "file 1", "ROWS", 500),
        ("initiator-1", "ssbinitiator1", "data", "ROWS", 0),
    ]
    rows = [(*key, 1, pages * PAGE_BYTES, 0, 0, 0, 0, 0) for *key, pages in files]
    databases = {"target": "SSBTarget", "initiator-1": "SSBInitiator1", "initiator-2": "SSBInitiator2"}
    assert pages_read(columns("file_io", rows), databases) == {"target": 17, "initiator-1": 0}


def test_growth_is_that_of_all_files_of_a_database_also_where_the_login_may_not_see_its_name() -> None:
    files = [("SSBTarget", "data", 3), ("SSBTarget", "log", 4), (None, "file 1", 5)]
    rows = [("target", name, file, "ROWS", 0, 0, 0, 0, 0, 0, growth) for name, file, growth in files]
    assert growth_bytes(columns("file_io", rows)) == {
        "target, SSBTarget": 7,
        "target, a database hidden from this login": 5,
    }
