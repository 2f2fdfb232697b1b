"""Extended Events, of which the embedded server has none: the statements, and what comes back in the manual's format."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.files.script_text import ScriptError
from harness.lab import drivers, embedded_instances, scripts
from harness.lab.instances import Instance
from harness.observe import event_sessions
from harness.observe.event_sessions import EventSessions

LATCH = """
<event name="latch_suspend_end" package="sqlserver" timestamp="2026-01-01T00:00:00.250Z">
  <data name="mode"><type name="latch_mode" package="sqlserver"/><value>4</value><text>EX</text></data>
  <data name="duration"><type name="uint64" package="package0"/><value>118</value></data>
  <data name="page_id"><type name="uint32" package="package0"/><value>367</value><text/></data>
</event>"""
STARTED = '<event name="broker_activation_task_started" package="sqlserver" timestamp="2026-01-01T00:00:01Z"/>'
BUFFER = (
    f'<RingBufferTarget truncated="0" totalEventsProcessed="5321" eventCount="2">{LATCH}{STARTED}</RingBufferTarget>'
)
AT_NS = 1_767_225_600 * 10**9


def test_fields_have_the_text_of_a_map_and_else_the_value() -> None:
    seen, (latch, started) = event_sessions.read(BUFFER)
    assert seen == 5321
    assert latch[:2] == (AT_NS + 250_000_000, "latch_suspend_end")
    assert json.loads(latch.fields) == {"mode": "EX", "duration": "118", "page_id": "367"}
    assert started == (AT_NS + 10**9, "broker_activation_task_started", "{}")


def test_a_buffer_that_was_cut_off_is_an_error() -> None:
    with pytest.raises(ElementTree.ParseError):
        event_sessions.read(BUFFER[:-9])


class Server:
    """A SQL Server as far as the scripts go; `refuses` names those that fail, `data` is what its ring buffer holds."""

    def __init__(self, name: str, data: str = BUFFER, refuses: str = "") -> None:
        self.name, self.database = name, f"SSB{name}"
        self.data, self.refuses = data, refuses
        self.ran: list[tuple[str, str]] = []
        self.opened = 0

    def connect(self, **_: Any) -> Any:
        self.opened += 1
        return SimpleNamespace(server=self, close=self.close)

    def close(self) -> None:
        self.opened -= 1

    def check(self) -> None: ...

    def rows(self, path: str, variables: dict[str, str]) -> list[dict[str, Any]]:
        step = path.removeprefix("observe/events_").removesuffix(".sql")
        scripts.single(path, variables)  # all variables have values
        self.ran.append((step, variables["Session"]))
        if step == self.refuses:
            raise ScriptError(f"{path}: no permission (error 15247)")
        return [{"target_data": self.data}] if step == "read" else []


@pytest.fixture(autouse=True)
def _servers(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "process" not in request.keywords:
        monkeypatch.setattr(
            scripts, "rows", lambda connection, path, variables: connection.server.rows(path, variables)
        )


def recorded(*servers: Server) -> tuple[dict[str, list[Any]], list[str]]:
    told: list[str] = []
    sessions = EventSessions(told.append)
    sessions.begin(servers)  # type: ignore[arg-type]
    columns = sessions.end()
    assert not any(one.opened for one in servers)
    return columns, told


def test_a_session_is_created_started_read_and_dropped_on_each_instance() -> None:
    servers = [Server("target"), Server("initiator-1")]
    columns, told = recorded(*servers)
    assert columns["instance"] == ["target", "target", "initiator-1", "initiator-1"]
    assert columns["event"] == 2 * ["latch_suspend_end", "broker_activation_task_started"]
    assert columns["events_seen"] == 4 * [5321] and told == []
    assert [step for step, _ in servers[0].ran] == ["drop", "create", "start", "read", "drop"]
    assert {session for _, session in servers[0].ran} == {"harness_SSBtarget"}


@pytest.mark.parametrize(
    "refuses, ran", [("create", ["drop", "create"]), ("start", ["drop", "create", "start", "drop"])]
)
def test_an_instance_that_refuses_is_told_and_left_out(refuses: str, ran: list[str]) -> None:
    servers = [Server("target"), Server("initiator-1", refuses=refuses)]
    columns, told = recorded(*servers)
    assert set(columns["instance"]) == {"target"}
    [line] = told
    assert line.startswith("the events of initiator-1 are not recorded: ") and "(error 15247)" in line
    assert [step for step, _ in servers[1].ran] == ran


@pytest.mark.parametrize("server", [Server("target", data=BUFFER[:-9]), Server("target", refuses="read")])
def test_a_session_is_dropped_though_its_events_cannot_be_read(server: Server) -> None:
    columns, told = recorded(server)
    assert columns["instance"] == [] and len(told) == 1
    assert server.ran[-1][0] == "drop"


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Instance]:
    driver = drivers.choose("auto")
    with embedded_instances.running(version="2022", initiators=1, directory=tmp_path, driver=driver) as lab:
        yield replace(lab.target, database="master")


@pytest.mark.process
def test_a_server_without_extended_events_is_told_in_one_line(embedded: Instance) -> None:
    told: list[str] = []
    sessions = EventSessions(told.append)
    assert not sessions.begin([embedded])
    assert sessions.end()["instance"] == []
    assert len(told) == 1 and "\n" not in told[0]
    assert told[0].startswith("the events of target are not recorded: ")
