"""What opens and closes with a lab."""

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import doctor
from harness.definitions.lab_kinds import EMBEDDED, SERVERS
from harness.files.settings import Settings
from harness.observe.machine_use import MachineTotals
from harness.observe.snapshots import Snapshot
from harness.run import equipment, run_folder
from harness.run.equipment import LabEquipment, Preflight
from tests.noting import NotingReporter


def test_error_logs_are_kept_while_the_lab_is_still_open(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    happened: list[str] = []

    @contextlib.contextmanager
    def open_lab(*_: Any, **options: Any) -> Iterator[Any]:
        happened.append("opened")
        yield SimpleNamespace(instances=[], end_pulse=lambda: None)
        happened.append("closed")

    class ErrorLogs:
        def __init__(self, *_: Any) -> None:
            happened.append("since")

        def keep(self) -> None:
            happened.append("kept")

    class NoLab(Exception): ...

    def examine(lab: Any) -> None:
        raise NoLab

    monkeypatch.setattr(equipment, "open_lab", open_lab)
    monkeypatch.setattr(equipment, "ErrorLogs", ErrorLogs)
    preflight: Any = SimpleNamespace(
        results=tmp_path,
        settings=SimpleNamespace(driver="auto"),
        reporter=SimpleNamespace(note=happened.append),
        note_once=happened.append,
        examine=examine,
    )
    opened = LabEquipment(SimpleNamespace(), preflight, SimpleNamespace())  # type: ignore[arg-type]
    with pytest.raises(NoLab):
        opened.open("2022", 1)
    opened.close()
    assert happened == ["opened", "since", "kept", "closed"]


def test_a_load_of_other_processes_is_a_finding_and_cells_are_judged_by_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kept: list[doctor.Finding] = []
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: [])
    monkeypatch.setattr(equipment, "others_percent", lambda seconds: 97.0)
    monkeypatch.setattr(Preflight, "_write", lambda self, lab, findings: kept.extend(findings))
    reporter = NotingReporter()
    preflight = Preflight(Settings(), [], tmp_path, reporter)
    preflight.examine(SimpleNamespace(version="2022", kind=EMBEDDED))  # type: ignore[arg-type]
    assert preflight.others_percent == 97.0
    assert (
        [str(finding) for finding in kept]
        == reporter.notes
        == [
            "warning: lab, load: other processes use 97 % of the processors' time: rates are those of what they leave, and "
            "compare only with one another; a cell counts unless they use 10 % more; remedy: end them for rates of the whole "
            "machine"
        ]
    )


def test_a_server_that_others_use_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of two processors, others use half a second in one."""
    at_ns, spent_ms = itertools.count(0, 10**9), itertools.count(9000, 500)
    instance = SimpleNamespace(name="target", connect=lambda database: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(doctor, "examine", lambda *_, **__: [])
    monkeypatch.setattr(doctor, "file_sizes", lambda *_, **__: {})
    monkeypatch.setattr(equipment.link, "enlarge_files", lambda lab, sizes: None)
    monkeypatch.setattr(equipment, "others_percent", lambda seconds: 0.0)
    monkeypatch.setattr(
        equipment, "snapshot", lambda _: Snapshot(next(at_ns), processor_time_ms=next(spent_ms), processors=2)
    )
    monkeypatch.setattr(Preflight, "_write", lambda self, lab, findings: None)
    reporter = NotingReporter()
    lab: Any = SimpleNamespace(version="2022", kind=SERVERS, instances=[instance])
    Preflight(Settings(), [], tmp_path, reporter).examine(lab)
    assert reporter.notes[0].startswith(
        "warning: target, load: uses 25 % of its processors while this run does nothing"
    )


def test_what_the_hypervisor_takes_all_the_time_is_found_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    totals = iter(
        [
            MachineTotals(0, 0, 0, 0),
            MachineTotals(10, 9, 0.9 * os.cpu_count(), 5),
            MachineTotals(20, 9, 1.2 * os.cpu_count(), 5),
        ]
    )
    monkeypatch.setattr(MachineTotals, "now", lambda: next(totals))
    manifest: dict[str, Any] = {"findings": {"2022": []}}
    monkeypatch.setattr(run_folder, "read_manifest", lambda folder: manifest)
    monkeypatch.setattr(run_folder, "write_manifest", lambda folder, changed: None)
    reporter = NotingReporter()
    preflight = Preflight(Settings(), [], tmp_path, reporter)
    assert (preflight.stolen_percent(), preflight.stolen_percent()) == (pytest.approx(9), pytest.approx(6))
    [finding] = manifest["findings"]["2022"]
    [note] = reporter.notes
    assert (
        note.startswith("warning: lab, load: the hypervisor takes 9 % of the processors' time")
        and finding["text"] in note
    )
