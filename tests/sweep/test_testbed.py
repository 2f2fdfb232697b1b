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
from harness.sweep.testbed import LabTestbed
from tests.noting import NotingReporter

CELL = Cell.parse("i1-t3-r1-p100-v2008")


def test_missing_pages_without_an_administrator_connection_are_noted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(instance: Any) -> list[dialog_pages.DialogPage]:
        raise LabError(f"{instance.name} has no dedicated administrator connection")

    monkeypatch.setattr(dialog_pages, "located", refused)
    reporter = NotingReporter()
    settings = settings_module.create({"lab": "embedded"}, environment={})
    testbed = LabTestbed(settings, Topology("embedded"), tmp_path, [CELL], reporter)
    instance: Any = SimpleNamespace(name="initiator-1")
    assert testbed._spread([instance]) == {}
    assert testbed._spread([instance]) == {}
    assert reporter.notes == [
        "the pages on which dialogs lie are not recorded: initiator-1 has no dedicated administrator connection"
    ]
