"""Latch attribution, on an instance whose tasks really wait for latches."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.files.script_text import ScriptError
from harness.lab import scripts
from harness.lab.instances import Instance
from harness.observe import Observers, dialog_pages
from harness.observe.latch_watch import LatchWatch, Page, PageObjects, allocation_name, object_name
from harness.observe.looks import Looks
from harness.observe.snapshots import fingerprint
from tests.observe.latching_server import latching_instance

pytestmark = pytest.mark.process

SENDERS = 4
ENOUGH_S = 120  # for anything here to happen
SERVICES = """
CREATE QUEUE dbo.here; CREATE SERVICE Here ON QUEUE dbo.here ([DEFAULT]);
CREATE TABLE dbo.dialogs (id int NOT NULL PRIMARY KEY, handle uniqueidentifier NOT NULL);
"""
BEGIN = """
DECLARE @id int = {first}, @h uniqueidentifier;
WHILE @id < {first} + {count}
BEGIN
    BEGIN DIALOG @h FROM SERVICE Here TO SERVICE 'Nowhere' WITH ENCRYPTION = OFF;
    IF @id % {ratio} = 0 INSERT dbo.dialogs (id, handle) VALUES (@id / {ratio}, @h);
    SET @id += 1;
END;
"""


@pytest.fixture(scope="module", params=["2008", "2022"])
def instance(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance with all its dialogs on one page; before 2019 it has only DBCC PAGE."""
    with latching_instance(tmp_path_factory.mktemp("latching") / request.param, request.param) as master:
        connection = master.connect()
        connection.execute("CREATE DATABASE db;")
        lab = replace(master, database="db")
        with lab.connect() as inside:
            inside.execute(SERVICES)
            inside.execute(BEGIN.format(first=1, count=SENDERS, ratio=1))
        connection.close()
        yield lab


class Load:
    """Senders, each on its own dialog, until they are stopped."""

    def __init__(self, instance: Instance) -> None:
        self._stop = threading.Event()
        with instance.connect() as connection:
            handles = [row[0] for row in connection.execute("SELECT handle FROM dbo.dialogs ORDER BY id;").fetchall()]
        self.sent = [0] * len(handles)
        self._threads = [
            threading.Thread(target=self._send, args=(instance, place, handle), daemon=True)
            for place, handle in enumerate(handles)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        self.wait_for(1)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(ENOUGH_S)

    def wait_for(self, messages: int) -> None:
        """Wait until every sender has sent this many."""
        deadline = time.monotonic() + ENOUGH_S
        while min(self.sent) < messages:
            assert time.monotonic() < deadline, self.sent
            time.sleep(0.01)

    def _send(self, instance: Instance, place: int, handle: str) -> None:
        connection = instance.connect()
        while not self._stop.is_set():
            connection.execute(f"SEND ON CONVERSATION '{handle}' (0x01);")
            self.sent[place] += 1
        connection.close()


def test_waiting_for_a_shared_page_is_attributed_to_sysdesend(instance: Instance) -> None:
    watch = LatchWatch(instance)
    waiting: set[int] = set()  # sessions that were seen so
    deadline = time.monotonic() + ENOUGH_S
    with Load(instance):
        while len(waiting) < 2:
            assert time.monotonic() < deadline, f"{SENDERS} senders on one page, and only {waiting} were seen waiting"
            watch.prepare()
            watch.begin()
            seen = watch.end().result(timeout=ENOUGH_S)
            assert not seen.failure and not seen.refusal and not seen.unresolved
            # The system's own tasks have no session: 0.
            waits = [(wait.sampled_at_ns, wait.session_id) for wait in seen.waits if wait.session_id]
            assert len(set(waits)) == len(waits), "a session waits for one page at a time"
            waiting |= {session for _, session in waits}
    watch.close()
    assert {wait.wait_type for wait in seen.waits} == {"PAGELATCH_EX"}
    assert {(seen.object_of(wait).name, seen.object_of(wait).index_id) for wait in seen.waits} == {("sys.sysdesend", 1)}
    [place] = {(wait.page.file_id, wait.page.page_id) for wait in seen.waits}
    assert place in {(page.file_id, page.page_id) for page in dialog_pages.located(instance)}


def test_observers_record_latch_samples_waits_latches_and_writes(instance: Instance) -> None:
    printed: list[str] = []
    observers = Observers([instance], tell=printed.append)
    observers.begin(1)
    observers.window_begins()
    for snapshot in observers._before.values():
        snapshot.result(timeout=ENOUGH_S)
    with Load(instance) as load:
        load.wait_for(20)
    observers.window_ends()
    changes = observers.changes(timeout_s=ENOUGH_S)
    observed = observers.end()
    observers.close()
    assert printed == [] and observed.failures == []
    assert changes["latches"]["latch_class"] == ["BUFFER"]
    place = changes["waits"]["wait_type"].index("PAGELATCH_EX")
    counted, waited = changes["latches"]["waiting_requests"][0], changes["waits"]["waiting_tasks"][place]
    assert counted == waited > 0
    [of_sysdesend] = zip(*(changes["index_waits"][name] for name in ("object_name", "page_latch_waits")), strict=True)
    assert of_sysdesend == ("sys.sysdesend", counted)
    written = dict(zip(changes["file_io"]["file_name"], changes["file_io"]["bytes_written"], strict=True))
    assert written["db_log"] > 0
    waits, samples = observed.records["latch_waits"], observed.records["samples"]
    assert set(waits["object_name"]) <= {"sys.sysdesend"} and set(waits["instance"]) <= {"initiator-1"}
    shown = dict(zip(samples["label"], samples["value"], strict=True))  # the last sample
    assert shown["Schedulers\\Online"] == 1 and shown["Schedulers\\Active Workers"] >= 1
    looks = [
        value for metric, value in zip(samples["metric"], samples["value"], strict=True) if metric == "latch_looks"
    ]
    assert looks[0] == 1 and looks[-1] >= 1
    assert len(set(waits["sampled_at_ns"])) <= looks[-1]


def test_a_fingerprint_holds_what_the_instance_shows(instance: Instance) -> None:
    with instance.connect() as connection:
        found = fingerprint(connection)
    assert list(found) == [
        "server",
        "system",
        "container",
        "host",
        "memory",
        "service",
        "power",
        "log",
        "databases",
        "files",
        "configuration",
        "trace_flags",
        "log_storage",
        "refused",
    ]
    assert found["server"]["edition"] == "Embedded Service Broker"
    assert found["system"]["cpu_count"] >= 1 and found["memory"]["total_physical_memory_kb"] > 0
    assert [row["name"] for row in found["databases"]] == ["tempdb", "db"]
    assert {row["name"] for row in found["files"]} == {"db", "db_log", "tempdev", "templog"}
    assert found["configuration"]["remote admin connections"] == {"value": 0, "value_in_use": 0}
    assert found["trace_flags"] == [] and found["log_storage"] is None
    is_old = found["host"] is None
    assert list(found["refused"]) == (["host", "service", "log"] if is_old else [])


# -- what an instance does not show --------------------------------------------------------------------------------------


class FakeInstance:
    name = "target"
    silence = ""

    def connect(self, **_: object) -> Any:
        return SimpleNamespace(close=lambda: None)


Answer = Callable[[str, dict[str, str]], list[dict[str, Any]]]


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    def set_up(answer: Answer) -> None:
        monkeypatch.setattr(scripts, "rows", lambda connection, path, variables: answer(path, variables))

    return set_up


def refuse(state: str = "42000") -> ScriptError:
    error = ScriptError("VIEW SERVER STATE permission was denied (error 300)")
    error.__cause__ = Exception(state, "denied")
    return error


def test_a_login_that_may_not_see_waiting_tasks_records_none(answering: Callable[[Answer], None]) -> None:
    def answer(path: str, variables: dict[str, str]) -> list[dict[str, Any]]:
        raise refuse()

    answering(answer)
    instance: Any = FakeInstance()
    watch = LatchWatch(instance, interval_s=0.001)
    watch.prepare()
    watch.begin()
    assert watch._outcome.result(timeout=120).refusal.endswith("(error 300)")
    assert watch.end().result(timeout=120).failure == ""
    watch.close()


def test_a_broken_connection_keeps_the_earlier_samples(answering: Callable[[Answer], None]) -> None:
    def answer(path: str, variables: dict[str, str], asked: list[str] = []) -> list[dict[str, Any]]:  # noqa: B006
        asked.append(path)
        if len(asked) > 2:
            raise refuse("08S01")
        return []

    answering(answer)
    instance: Any = FakeInstance()
    watch = LatchWatch(instance, interval_s=0.001)
    watch.prepare()
    watch.begin()
    seen = watch._outcome.result(timeout=120)
    assert seen.failure and not seen.refusal and len(seen.sampled_at_ns) == 2
    watch.close()


def test_a_method_that_is_refused_three_times_in_a_row_is_not_tried_again(answering: Callable[[Answer], None]) -> None:
    asked: list[str] = []

    def answer(path: str, variables: dict[str, str]) -> list[dict[str, Any]]:
        asked.append(path)
        raise refuse()

    answering(answer)
    objects = PageObjects()
    connection: Any = None
    assert objects.resolve(connection, [Page(7, 1, page) for page in range(16, 21)], within_s=10) == {}
    assert asked == 3 * ["observe/page_object.sql", "observe/page_header.sql"]
    assert objects.unresolved.endswith("(error 300)")
    assert objects.resolve(connection, [Page(2, 1, 16)], within_s=10) == {}
    assert len(asked) == 8, "another database may be another matter"
    assert objects.resolve(connection, [Page(7, 1, 16)], within_s=10) == {}
    assert len(asked) == 8
    assert objects.unresolved.endswith("(error 300)")


@pytest.mark.parametrize("bad", ["refused", "unreadable", "without an object"])
def test_one_bad_page_costs_only_its_own_object(answering: Callable[[Answer], None], bad: str) -> None:
    def answer(path: str, variables: dict[str, str]) -> list[dict[str, Any]]:
        if path == "observe/object_name.sql":
            return [{"is_here": 1, "queue_name": None, "object_name": None}]
        if variables["PageId"] != "17":
            return [{"object_id": 72, "index_id": 1}]
        if bad == "without an object":
            return [{"object_id": None, "index_id": None}]
        raise refuse() if bad == "refused" else ScriptError("the page cannot be read (error 824)")

    answering(answer)
    objects = PageObjects()
    connection: Any = None
    pages = [Page(7, 1, page) for page in (17, 18, 19)]
    for _ in range(3):
        assert list(objects.resolve(connection, pages, within_s=10)) == pages[1:]
    assert bool(objects.unresolved) == (bad != "without an object")


@pytest.mark.parametrize(
    "object_id, row, expected",
    [
        (72, {"is_here": 1, "object_name": None}, "sys.sysdesend"),
        (5, {"is_here": 1, "schema_name": "dbo", "object_name": "messageDrop"}, "dbo.messageDrop"),
        (
            6,
            {"is_here": 1, "queue_schema_name": "dbo", "queue_name": "Q", "object_name": "queue_messages_5"},
            "queue dbo.Q",
        ),
        (
            41,
            {"is_here": 0, "database_name": "tempdb", "schema_name": "sys", "object_name": "sysrscols"},
            "tempdb.sys.sysrscols",
        ),
        (72, {"is_here": 0, "database_name": "msdb", "object_name": "sysdesend"}, "msdb.sys.sysdesend"),
        (1, {"is_here": 1}, ""),
    ],
)
def test_objects_get_the_names_that_users_know(object_id: int, row: dict[str, Any], expected: str) -> None:
    empty = dict.fromkeys(("database_name", "schema_name", "object_name", "queue_schema_name", "queue_name"))
    assert object_name(object_id, empty | row) == expected


@pytest.mark.parametrize(
    "page, expected",
    [
        (1, "allocation (PFS)"),
        (8088, "allocation (PFS)"),
        (2, "allocation (GAM)"),
        (3, "allocation (SGAM)"),
        (511232, "allocation (GAM)"),
        (511233, "allocation (SGAM)"),
        (0, "allocation"),
        (9, "allocation"),
    ],
)
def test_allocation_pages_are_distinguished_by_their_position(page: int, expected: str) -> None:
    assert allocation_name(page) == expected


def test_looks_at_an_instance_under_load_show_whose_pages_its_tasks_wait_for(instance: Instance) -> None:
    looks = Looks([instance], has_page_latches=True, stores_messages=False)
    try:
        with Load(instance):
            deadline = time.monotonic() + ENOUGH_S
            while "sys.sysdesend" not in (waiting := looks.take().charts.get("initiator_latches", {})):
                assert time.monotonic() < deadline
        assert waiting["sys.sysdesend"] > 0  # of the senders, and of the broker itself
        following = looks.take()
        assert not following.failures
        assert following.charts["initiator_waits"]["PAGELATCH_EX"] > 0
        assert following.charts["rate"]["sent"] > 0
    finally:
        looks.close()
