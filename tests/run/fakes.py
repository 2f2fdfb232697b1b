"""A lab, clients and observers in memory, as far as the protocol of a cell sees them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pyodbc

from harness.definitions.lab_kinds import SIMULATED
from harness.files import records, workload_file
from harness.lab import scripts
from harness.lab.instances import InstanceDied
from harness.load.plan import CellPlan, GeneratorHealth, LoadReport, Progress, Share
from harness.machine.clocks import ClockDifference
from harness.observe.observers import Observed, TargetProgress

Rows = list[tuple[Any, ...]]


class HurriedClock:
    """A clock that passes over the time for which somebody sleeps."""

    def __init__(self) -> None:
        self._passed_over_s = 0.0

    def now_s(self) -> float:
        return time.monotonic() + self._passed_over_s

    def utc_ns(self) -> int:
        return time.time_ns() + round(self._passed_over_s * 1e9)

    def sleep(self, duration_s: float) -> None:
        self._passed_over_s += duration_s


CLOCK = HurriedClock()  # of all that this module makes


class FakeCursor:
    def __init__(self, connection: object, answers: Callable[[str], tuple[list[str], Rows]]) -> None:
        self.connection = connection
        self._answers = answers
        self.description: list[tuple[str]] | None = None
        self._rows: Rows = []

    def __enter__(self) -> FakeCursor:
        return self

    def __exit__(self, *_: object) -> None: ...

    def execute(self, text: str, *_: object) -> None:
        names, self._rows = self._answers(text)
        self.description = [(name,) for name in names] or None

    def fetchall(self) -> Rows:
        return self._rows

    def fetchmany(self, size: int) -> Rows:
        batch, self._rows = self._rows[:size], self._rows[size:]
        return batch

    def nextset(self) -> bool:
        return False


class FakeServer:
    """Stands for a connection to target or initiator; answers the files of sql/observe from what was `stored`."""

    timeout = 0

    def __init__(self, run: int) -> None:
        self.run = run
        self.stored: list[tuple[int, int, int, int]] = []  # initiator, thread, sequence, sent_at_ns
        self.queued = 0
        self.untransmitted = 0
        self.unprocessed: int | None = 0  # None: a reader keeps them locked
        self.error_messages: Rows = []
        self.sent = 0  # on its dialogs
        self.errors: Rows = []
        self.queue_enabled = True

    def cursor(self) -> FakeCursor:
        return FakeCursor(self, self._answer)

    def _answer(self, text: str) -> tuple[list[str], Rows]:
        if "FROM dbo.dialogs" in text:
            return ["handle"], [(str(UUID(int=number)),) for number in range(1, 51)]
        if text.startswith("SELECT COUNT_BIG(*) FROM dbo.messageDrop"):
            return ["n"], [(len(self.stored),)]
        if text.startswith("SELECT CAST(is_receive_enabled"):
            return ["enabled"], [(int(self.queue_enabled),)]
        if text == scripts.single("doctor/clock.sql", {}):
            return ["utc_ns"], [(time.time_ns(),)]
        variables = {"Run": str(self.run), "Queue": FakeInstance.queue}
        for file, answer in {
            "queue_depth": lambda: (["queue_name", "messages"], [("q", self.queued)]),
            "transmission_queue": lambda: (["messages"], [(self.untransmitted,)]),
            "transmission_status": lambda: (
                ["transmission_status", "messages"],
                [("The route has no address", self.untransmitted)],
            ),
            "deliveries": lambda: (
                ["initiator", "thread", "sequence", "sent_at_ns", "processed_at_ns"],
                [(*row, row[3] + 1000) for row in self.stored],
            ),
            "receives": lambda: (["received_at_ns", "messages", "session_id"], [(time.time_ns(), len(self.stored), 9)]),
            "errors": lambda: (["errors", "error_number", "error_message"], self.errors),
            "unprocessed": lambda: (["messages"], [(self._unprocessed(),)]),
            "sent_messages": lambda: (["messages"], [(self.sent or None,)]),
            "error_messages": lambda: (["message_body", "errors"], self.error_messages),
        }.items():
            if text == scripts.single(f"observe/{file}.sql", variables):
                return answer()
        return [], []

    def _unprocessed(self) -> int:
        if self.unprocessed is None:
            driver = "[42000] [Microsoft][ODBC Driver 18 for SQL Server][SQL Server]"
            raise pyodbc.Error("42000", f"{driver}Lock request time out period exceeded. (1222) (SQLExecDirectW)")
        return self.unprocessed


class FakeInstance:
    queue = "dbo.MySSBLabTestQueue"
    retention = False

    def __init__(self, name: str) -> None:
        self.name = name
        self.database = name

    def client_connection_string(self) -> str:
        return f"to {self.name}"

    def out_of_reach(self) -> str:
        return ""


class FakeLab:
    """`death` is what `check` raises."""

    def __init__(self, initiators: int) -> None:
        self.target = FakeInstance("target")
        self.initiators = [FakeInstance(f"initiator-{number}") for number in range(1, initiators + 1)]
        self.death = ""
        self.kind = SIMULATED  # so that this machine does not matter
        self.clock = CLOCK
        self.workload = workload_file.paper()

    @property
    def instances(self) -> list[FakeInstance]:
        return [self.target, *self.initiators]

    def check(self) -> None:
        if self.death:
            raise InstanceDied(self.death)


class FakeClients:
    """Sends `messages` on every thread between start and stop; the server stores them unless a test says otherwise."""

    def __init__(self, server: FakeServer, messages: int = 5) -> None:
        self.server = server
        self.messages = messages
        self.deliver: Callable[[list[tuple[int, int, int, int]]], None] = server.stored.extend
        self.trouble: Exception | None = None
        self.failed_calls = 0
        self.error = "[HYT00] timeout"
        self.stopped = 0
        self.plan: CellPlan | None = None
        self.worker_clocks: Mapping[str, ClockDifference] = {}
        self._progress = 0

    def prepare(self, plan: CellPlan) -> None:
        self.plan = plan

    def start(self) -> None:
        self._started_ns = CLOCK.utc_ns()

    def progress(self) -> Progress:
        if self.trouble:
            raise self.trouble
        self._progress += 10
        return Progress(self._progress, 100.0, 0, 1, counted_at_ns=CLOCK.utc_ns())

    def clocks(self) -> Mapping[str, ClockDifference]:
        return self.worker_clocks

    def stop(self) -> LoadReport:
        assert self.plan is not None
        self.stopped += 1
        now_ns = CLOCK.utc_ns()
        plan, cell = self.plan, self.plan.cell
        for initiator in range(1, cell.initiators + 1):
            rows = [(initiator, t, s, now_ns) for t in range(1, cell.threads + 1) for s in range(self.messages)]
            self.deliver(rows)
            columns = {
                "initiator": [row[0] for row in rows],
                "thread": [row[1] for row in rows],
                "sequence": [row[2] for row in rows],
                "intended_at_ns": [self._started_ns + 1] * len(rows),
                "started_at_ns": [self._started_ns + 1] * len(rows),
                "latency_ns": [1000] * len(rows),
                "succeeded": [True] * len(rows),
            }
            records.write(plan.results, "calls", plan.visit, plan.attempt, columns, writer=f"i{initiator}")
        sent = {(i, t): self.messages for i in range(1, cell.initiators + 1) for t in range(1, cell.threads + 1)}
        health = GeneratorHealth(1, 10.0, 1.0, 0.99, 2.5, round_trip_ms=0.2)
        errors = [(self.error, self.failed_calls)] if self.failed_calls else []
        barriers = {Share(initiator): self._started_ns for initiator, _ in sent}
        return LoadReport(self._started_ns, now_ns, sent, self.failed_calls, errors, [], [health], barriers)


class IdleClients:
    """Stands in for `LocustClients` where nothing is sent, and starts no process."""

    def launch(self, initiators: int) -> None: ...

    def end_cell(self) -> None: ...

    def close(self) -> None: ...


class FakeObservers:
    """An instance that shows waits and file I/O, and a target that keeps up with `FakeClients`."""

    def __init__(self) -> None:
        self.readers = [1]  # what the next readings show; the last one stays

    def begin(self, count: int) -> None: ...

    def target_progress(self) -> TargetProgress:
        readers = self.readers.pop(0) if len(self.readers) > 1 else self.readers[0]
        return TargetProgress(0, 100 * readers, readers)

    def window_begins(self) -> None: ...

    def window_ends(self) -> None: ...

    def changes(self, *, timeout_s: float) -> dict[str, dict[str, list[Any]]]:
        return {kind: records.columns(kind, []) for kind in ("waits", "file_io")}

    def end(self) -> Observed:
        return Observed({"samples": records.columns("samples", [])}, ["observer of target: it was away"])


def cell_row(results: Path) -> dict[str, Any]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    (file,) = (results / "raw" / "cells").glob("*.parquet")
    row: dict[str, Any] = pq.read_table(file).to_pylist()[0]
    return row
