"""What is refused before anything begins, and where the table may go."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.failures import UsageFailure
from harness.sweep.folder import NoRun
from harness.techniques import run, table
from harness.techniques.run import OtherLab
from harness.techniques.scenario import DEFAULT, ScenarioError


def climb(tmp_path: Path, lab: str, **more: Path) -> None:
    options = {"lab": lab, "results": tmp_path / "runs"}
    run.climb(
        options,
        repeats=1,
        scenario_file=more.get("scenario_file"),
        add_to=more.get("add_to"),
        announce=lambda text: None,
        console_is_terminal=False,
    )


def a_run(folder: Path, lab: str) -> Path:
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps({"run_id": folder.name, "lab": lab}))
    return folder


def test_the_table_of_one_lab_does_not_go_into_the_run_of_another(tmp_path: Path) -> None:
    other = a_run(tmp_path / "other", "sqlserver")
    with pytest.raises(OtherLab, match="a run on the sqlserver lab, and this one is on the embedded lab"):
        climb(tmp_path, "embedded", add_to=other)
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoRun):
        climb(tmp_path, "embedded", add_to=tmp_path / "none")


def test_a_scenario_without_times_for_virtual_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(DEFAULT.read_text().replace("[times.simulated]", "[times.elsewhere]"))
    with pytest.raises(ScenarioError, match="no times for the lab simulated"):
        climb(tmp_path, "simulated", scenario_file=path)


def test_options_of_servers_mean_nothing_in_virtual_time(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match="driver"):
        run.climb(
            {"lab": "simulated", "driver": "freetds"},
            repeats=1,
            scenario_file=None,
            announce=lambda text: None,
            console_is_terminal=False,
        )


def test_the_table_is_copied_whole(tmp_path: Path) -> None:
    own, other = a_run(tmp_path / "own", "embedded"), a_run(tmp_path / "other", "embedded")
    table.write(own, [])
    copied = table.copy(own, other)
    assert [path.name for path in copied] == ["techniques.parquet", "techniques.csv"]
    assert all(path.read_bytes() == (own / "reduced" / path.name).read_bytes() for path in copied)
