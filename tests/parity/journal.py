"""The file of a recording, which pytest writes and the comparison reads.

It holds JSON lines. The first names the server; each of the others is a test with its outcome and its statements.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyodbc
import pytest

from harness.lab.drivers import Driver
from tests.conformance.servers import Server
from tests.parity.normalising import Names, written
from tests.parity.recording import Recorder

RECORDER = pytest.StashKey[tuple[Recorder, Names]]()


@dataclass
class Recording:
    """A recording, read from its file; `tests` by name, which is the same for every server."""

    server: dict[str, str]
    tests: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Recording:
        recording = cls({})
        for line in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if "test" in entry:
                recording.tests[entry["test"]] = entry
            else:
                recording.server = entry
        return recording


class Journal:
    """The pytest plugin that writes a recording."""

    NAME = "conformance-journal"

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", encoding="utf-8")
        self._server_name = ""
        self._introduced = False

    def introduce(self, server: Server, driver: Driver, administrator: pyodbc.Connection) -> None:
        """Write once which server and driver are recorded."""
        if self._introduced:
            return
        self._introduced = True
        self._server_name = administrator.execute("SELECT @@SERVERNAME;").fetchval()
        version = administrator.execute("SELECT @@VERSION;").fetchval()
        name, number = (administrator.getinfo(kind) for kind in (pyodbc.SQL_DRIVER_NAME, pyodbc.SQL_DRIVER_VER))
        self._write(
            kind=server.kind,
            origin=server.origin,
            version=" ".join(version.split()),
            driver=f"{driver.kind}: {name} {number}",
        )

    def names(self, database: str) -> Names:
        return Names({database: "<database>", self._server_name: "<server>", platform.node(): "<host>"})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "call" or (report.when == "setup" and not report.passed):
            self._test(item, report)
        return report

    def pytest_unconfigure(self) -> None:
        self._file.close()

    def _test(self, item: pytest.Item, report: pytest.TestReport) -> None:
        outcome = "error" if report.when == "setup" and report.failed else report.outcome
        recorder, names = item.stash.get(RECORDER, (Recorder(), Names({})))
        statements = written(recorder.by_connection(), names)
        self._write(test=_name(item), outcome=outcome, why=names.text(_why(report)), statements=statements)

    def _write(self, **entry: object) -> None:
        self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")
        self._file.flush()


def _name(item: pytest.Item) -> str:
    """The test's id without the kind of server."""
    return re.sub(r"(\[)(?:embedded|sqlserver)-|-sqlserver(?=\])", r"\1", item.nodeid)


def _why(report: pytest.TestReport) -> str:
    """Why a test did not pass, in one line."""
    if report.passed:
        return ""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    return " ".join(str(crash.message if crash else report.longrepr).split())
