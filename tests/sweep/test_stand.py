from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness import settings as settings_module
from harness.lab.instances import LabError
from harness.lab.opening import Topology
from harness.matrix import Cell
from harness.observe import dialog_pages
from harness.sweep.stand import LabStand

CELL = Cell.parse("i1-t3-r1-p100-v2008")


def test_without_an_administrator_connection_pages_are_missing_and_that_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(instance: Any) -> list[dialog_pages.DialogPage]:
        raise LabError(f"{instance.name} has no dedicated administrator connection")

    monkeypatch.setattr(dialog_pages, "located", refused)
    notes: list[str] = []
    settings = settings_module.create({"lab": "embedded"}, environment={})
    stand = LabStand(settings, Topology("embedded"), tmp_path, [CELL], on_note=notes.append)
    instance: Any = SimpleNamespace(name="initiator-1")
    assert stand._spread([instance]) == {}
    assert stand._spread([instance]) == {}
    assert notes == [
        "on which pages the dialogs lie is not recorded: initiator-1 has no dedicated administrator connection"
    ]
