"""One cell, on the lab that is asked for."""

from pathlib import Path

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.experiments import matrix_run
from harness.experiments.selected_cells import chosen_visits
from harness.files import journal
from harness.files import settings as settings_module
from harness.files.settings import SettingsError
from harness.output.reporting import Notes, Reporter
from harness.run import run_folder

SMALL = {"lab": "simulated", "measure": "200ms", "settle": "200ms"}


def test_a_cell_runs_on_the_model_as_on_any_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    axes = {"threads": 60, "dialog_ratio": 1}  # more threads than the paper's cells have
    outcome = matrix_run.single(None, axes, {**SMALL, "results": tmp_path, "rate": "20/s"}, Notes())
    assert (outcome.total, outcome.completed, outcome.failed) == (1, 1, 0)
    assert outcome.measured is not None and outcome.measured.sent_per_s == pytest.approx(20)
    [entry] = journal.read(outcome.results / journal.NAME)
    assert (entry.cell, entry.outcome) == ("i1-t60-r1-p100-v2008", "completed")
    manifest = run_folder.read_manifest(outcome.results)
    assert manifest["lab"] == "simulated" and manifest["finished_at"] and manifest["model"]
    said = capsys.readouterr().out
    assert said.startswith("lab: simulated - a model of the hardware 'paper'")
    assert "60 threads per initiator can make 20 sends/s while a send takes at most 3,000 ms on average" in said


@pytest.mark.parametrize(
    "options, complaint",
    [
        (SMALL | {"events": True}, "--events does not go with the simulated lab: leave it out"),
        ({"lab": "embedded", "hardware": "paper"}, "--hardware has no effect on servers: leave it out, or choose"),
    ],
)
def test_what_a_lab_cannot_do_is_refused(tmp_path: Path, options: dict[str, object], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        matrix_run.sweep({**options, "results": tmp_path}, Reporter())
    assert list(tmp_path.iterdir()) == []


def test_each_fresh_block_takes_as_long_as_one_and_a_warm_one_less() -> None:
    def estimate_s(repeats: int, blocks: str) -> float:
        options = {"lab": "embedded", "cells": ("i1-t1-r150-p100-v2008",), "repeats": repeats, "blocks": blocks}
        settings = settings_module.create(options, environment={})
        return matrix_run.estimate_s(settings, chosen_visits(settings))

    assert estimate_s(3, "fresh") == pytest.approx(3 * estimate_s(1, "fresh"))
    assert estimate_s(1, "warm") == pytest.approx(estimate_s(1, "fresh"))
    assert estimate_s(3, "warm") < estimate_s(3, "fresh") - 2 * EMBEDDED.costs.version_s
