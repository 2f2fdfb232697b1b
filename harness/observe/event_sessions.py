"""Extended Events of a cell: each wait for a latch, and what the broker's activation and transmission do.

A session runs on each instance for some seconds after the measured window, while the clients still send: no rate and no
latency is of a time in which events were collected. Its ring buffer is in memory, so nothing stays on the server when
the session is dropped. It keeps 1,000 events, of each kind the last hundred at least (sql/observe/events_create.sql).
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from xml.etree import ElementTree

from harness.failures import MachineFailure
from harness.files import records
from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance, in_parallel

COLLECT_S = 3.0  # events reach the buffer once a second
QUERY_TIMEOUT_S = 30
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


class Event(NamedTuple):
    occurred_at_ns: int
    name: str
    fields: str  # JSON


class EventSessions:
    """Call for each cell: `begin`, then `end`. `tell` gets a line about each instance without a session or events."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._running: list[Instance] = []

    def begin(self, instances: Sequence[Instance]) -> bool:
        """Start a session on each instance, and return whether one runs. One that refuses is told and left out."""
        refused = in_parallel(_started, instances)
        self._running = [instance for instance, why in zip(instances, refused, strict=True) if not why]
        for instance, why in zip(instances, refused, strict=True):
            if why:
                self._tell(f"the events of {instance.name} are not recorded: {why}")
        return bool(self._running)

    def end(self) -> dict[str, list[Any]]:
        """Drop the sessions, and return the columns of the record `events`."""
        running, self._running = self._running, []
        rows: list[tuple[str, int, str, str, int]] = []
        for instance, outcome in zip(running, in_parallel(_taken, running), strict=True):
            if isinstance(outcome, str):
                self._tell(f"the events of {instance.name} are not recorded: {outcome}")
            else:
                events_seen, events = outcome
                rows += [(instance.name, *event, events_seen) for event in events]
        return records.columns("events", rows)


def _started(instance: Instance) -> str:
    """Create and start the session; return why that is not possible."""
    try:
        with closing(instance.connect(query_timeout_s=QUERY_TIMEOUT_S)) as connection:
            variables = _variables(instance)
            for step in ("drop", "create"):
                scripts.rows(connection, f"observe/events_{step}.sql", variables)
            try:
                scripts.rows(connection, "observe/events_start.sql", variables)
            except MachineFailure:
                _drop(connection, variables)
                raise
    except MachineFailure as error:
        instance.check()
        return str(error)
    return ""


def _taken(instance: Instance) -> tuple[int, list[Event]] | str:
    """Read the events and drop the session; return how many there were and those that were kept, or why none are."""
    try:
        with closing(instance.connect(query_timeout_s=QUERY_TIMEOUT_S)) as connection:
            try:
                [row] = scripts.rows(connection, "observe/events_read.sql", _variables(instance))
                return read(row["target_data"])
            finally:
                _drop(connection, _variables(instance))
    except (MachineFailure, ElementTree.ParseError, ValueError) as error:
        instance.check()
        return f"{error}"


def _drop(connection: Connection, variables: Mapping[str, str]) -> None:
    with suppress(MachineFailure):
        scripts.rows(connection, "observe/events_drop.sql", variables)


def _variables(instance: Instance) -> dict[str, str]:
    return {"Session": f"harness_{instance.database}", "Database": instance.database}


def read(target_data: str) -> tuple[int, list[Event]]:
    """Return how many events a ring buffer has seen, and those that it kept; raises ParseError where it was cut off.

    A field is a `data` with a `value`, and with a `text` where the value is a key of a map, such as a latch's mode.
    """
    buffer = ElementTree.fromstring(target_data)
    events = []
    for event in buffer.iter("event"):
        fields = {
            str(data.get("name")): data.findtext("text") or data.findtext("value") or "" for data in event.iter("data")
        }
        occurred = datetime.fromisoformat(str(event.get("timestamp"))) - _EPOCH
        occurred_at_ns = occurred // timedelta(microseconds=1) * 1000
        events.append(Event(occurred_at_ns, str(event.get("name")), json.dumps(fields, ensure_ascii=False)))
    return int(buffer.get("totalEventsProcessed") or len(events)), events
