from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.definitions.lab_kinds import CONTAINERS, EMBEDDED
from harness.definitions.matrix import Cell, Visit, label
from harness.files import settings as settings_module
from harness.files import workload_file
from harness.files.workload_file import Queue
from harness.lab import dialog_pool, queue_readers
from harness.lab.instances import LabError
from harness.lab.opening import Topology
from harness.observe import dialog_pages
from harness.run import attempt as attempts
from harness.run import testbed
from harness.run.equipment import Preflight
from harness.run.phases import Phases
from harness.run.testbed import LabTestbed
from tests.noting import NotingReporter
from tests.run.fakes import IdleClients

CELL = Cell.parse("i1-t3-r1-p100-v2008")
BEGIN = [f"{label(CELL.id, block)} begins" for block in (1, 2, 3)]


@pytest.fixture(autouse=True)
def _on_a_machine_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Preflight, "stolen_percent", lambda self: 0.0)


def test_missing_pages_without_an_administrator_connection_are_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(instance: Any) -> list[dialog_pages.DialogPage]:
        raise LabError(f"{instance.name} has no dedicated administrator connection")

    monkeypatch.setattr(dialog_pages, "located", refused)
    reporter = NotingReporter()
    settings = settings_module.create({"lab": "embedded"}, environment={})
    bed = LabTestbed(Topology(EMBEDDED), Preflight(settings, [CELL], tmp_path, reporter))
    instances: list[Any] = [SimpleNamespace(name=f"initiator-{number}") for number in (1, 2)]
    assert bed._spread(instances) == {}
    assert bed._spread(instances) == {}
    assert reporter.notes == [
        "the pages on which dialogs lie are not recorded: initiator-1 has no dedicated administrator connection; "
        "initiator-2 has no dedicated administrator connection"
    ]


def test_without_pages_an_estimate_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> Any:
        raise LabError("no")

    def rows(connection: Any, path: str, variables: dict[str, str]) -> list[dict[str, int]]:
        assert (path, variables) == ("observe/dialog_pages.sql", {"DialogRatio": "1", "LastDialog": "3"})
        return [{"dialogs": 3, "pages": 1, "dialogs_per_page_max": 3}]

    monkeypatch.setattr(dialog_pages, "located", refused)
    monkeypatch.setattr(dialog_pages.scripts, "rows", rows)
    reporter = NotingReporter()
    settings = settings_module.create({"lab": "embedded"}, environment={})
    bed = LabTestbed(Topology(CONTAINERS), Preflight(settings, [CELL], tmp_path, reporter))
    instance = SimpleNamespace(name="initiator-1", connect=lambda: SimpleNamespace(close=lambda: None))
    bed._locate(SimpleNamespace(pages={}), SimpleNamespace(initiators=[instance]), CELL)  # type: ignore[arg-type]
    assert reporter.notes[1:] == [
        "dialogs of i1-r1-v2008: initiator-1: 3 used dialogs should lie on 1 page of sys.sysdesend, at most 3 on one page: "
        "an estimate from the order of their handles"
    ]
    monkeypatch.setattr(dialog_pages.scripts, "rows", refused)
    bed._locate(SimpleNamespace(pages={}), SimpleNamespace(initiators=[instance]), CELL)  # type: ignore[arg-type]
    assert len(reporter.notes) == 2  # no cell fails because there is no estimate


@pytest.mark.parametrize(
    "retention, blocks, expected",
    [
        (False, "warm", ["open", "build", *BEGIN]),
        (True, "warm", ["open", "build", BEGIN[0], "end all", "build", BEGIN[1], "end all", "build", BEGIN[2]]),
        (False, "fresh", ["open", "build", BEGIN[0], "open", "build", BEGIN[1], "open", "build", BEGIN[2]]),
    ],
)
def test_cells_share_a_pool_and_queues_are_measured_before_each_unless_blocks_are_fresh_or_messages_retained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retention: bool, blocks: str, expected: list[str]
) -> None:
    asked: list[str] = []
    workload = workload_file.paper().model_copy(update={"queue": Queue(retention=retention)})

    class FakeEquipment:
        parts: Any = None

        def __init__(self, *_: Any) -> None: ...

        def open(self, version: str, initiators: int) -> Any:
            asked.append("open")
            self.parts = SimpleNamespace(lab=SimpleNamespace(workload=workload, initiators=[]), target=None)
            return self.parts

        def without_conversations(self) -> Any:
            asked.append("end all")
            return self.parts

        def close(self) -> None:
            self.parts = None

    class FakeQueueSizes:
        def __init__(self, *_: Any, rebuilds: bool) -> None:
            assert rebuilds

        def cell_begins(self, cell: str, results: Path) -> None:
            asked.append(f"{cell} begins")

    monkeypatch.setattr(testbed, "LabEquipment", FakeEquipment)
    monkeypatch.setattr(testbed, "QueueSizes", FakeQueueSizes)
    monkeypatch.setattr(testbed, "locust_clients", lambda preflight: IdleClients())
    monkeypatch.setattr(dialog_pool, "build", lambda lab, **_: asked.append("build"))
    settled_s: list[float] = []
    monkeypatch.setattr(attempts, "run", lambda attempt, *_: settled_s.append(attempt.times.settle))
    monkeypatch.setattr(queue_readers, "wait_until_at_most", lambda *_, **__: None)
    settings = settings_module.create({"lab": "embedded", "blocks": blocks}, environment={})
    bed = LabTestbed(Topology(CONTAINERS), Preflight(settings, [CELL], tmp_path, NotingReporter()))
    for block in (1, 2, 3):
        bed.make_ready(Visit(CELL, block), Phases())
        bed.run(Visit(CELL, block), 1, 1, Phases())
    bed.close()
    assert asked == expected
    built = asked.count("build")  # the first cell on new dialogs may settle twice as long
    assert settled_s == [2 * settings.settle] * built + [settings.settle] * (3 - built)
