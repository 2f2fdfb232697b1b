"""The latency of the newest messages on the embedded broker, against what the table of all deliveries says."""

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyodbc
import pytest

from harness.lab import drivers, embedded_instances, scripts
from harness.load.payload import STAMP, STAMP_OFFSET, new_body
from harness.observe.observers import END_TO_END

pytestmark = pytest.mark.process


@pytest.fixture
def target(tmp_path: Path) -> Iterator[pyodbc.Connection]:
    with embedded_instances.running(
        version="2008", initiators=0, directory=tmp_path, driver=drivers.choose("microsoft")
    ) as lab:
        with lab.target.connect("master") as connection:
            connection.execute("CREATE DATABASE app;")
        with lab.target.connect("app") as connection:
            scripts.run(connection, "target/message_drop.sql", {"Database": "app"})
            yield connection


def test_latencies_are_those_of_the_messages_of_the_last_second(target: pyodbc.Connection) -> None:
    insert = "INSERT INTO dbo.messageDrop (messageVal, processed_at) VALUES (?, DATEADD(SECOND, ?, SYSUTCDATETIME()));"
    # Those that count lie ahead, so that a busy machine may take its time.
    for sequence, (taken_ms, seconds_ago) in enumerate([(9000, 5), (30, -60), (10, -60), (20, -60)]):
        body = new_body(100, run=7, initiator=1, thread=1)
        STAMP.pack_into(body, STAMP_OFFSET, sequence, time.time_ns() - taken_ms * 10**6)
        target.execute(insert, bytes(body), -seconds_ago)
    target.execute(insert, b"a message of an application", 60)
    found = {sample.label: sample.value for sample in END_TO_END(target, "")}
    rows = scripts.rows(target, "observe/deliveries.sql", {"Run": "7"})
    latencies_ms = [(row["processed_at_ns"] - row["sent_at_ns"]) / 1e6 for row in rows[1:]]
    assert len(latencies_ms) == 3 and min(latencies_ms) >= 10
    assert found == {
        "median": pytest.approx(np.median(latencies_ms)),
        "95th percentile": pytest.approx(np.quantile(latencies_ms, 0.95)),
        "longest": pytest.approx(max(latencies_ms)),
    }
    target.execute("DELETE FROM dbo.messageDrop;")
    assert END_TO_END(target, "") == []
