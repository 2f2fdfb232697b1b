"""What opens and closes with a lab."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.run import equipment
from harness.run.equipment import LabEquipment


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
