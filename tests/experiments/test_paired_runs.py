"""Pairs of runs: their turns, what they refuse, and that what both blocks have in common does not decide."""

import io
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.definitions.lab_kinds import SIMULATED
from harness.definitions.matrix import Cell, Visit
from harness.experiments import lab_choice, paired_runs
from harness.experiments.virtual_lab import InVirtualTime
from harness.failures import UsageFailure
from harness.figures.comparison import compare
from harness.figures.ratios import Design
from harness.files import journal
from harness.files.toml_file import TomlError
from harness.output.reporting import Lines, Reporter, SafeConsole
from harness.run import engine, run_folder
from tests.results_fixture import write_reduced

CELLS = [Cell("2008", 1, 150, threads, 100) for threads in (1, 2)]
EMBEDDED = {"lab": "embedded", "cells": ("i1-t1-r150-p100-v2008",), "measure": "200ms", "settle": "200ms"}


def test_sides_take_turns_and_the_first_one_changes_from_block_to_block() -> None:
    visits = [Visit(cell, block) for block in (1, 2, 3) for cell in CELLS]
    lab = SimpleNamespace(settings=SimpleNamespace(kind=SIMULATED))
    sides: Any = [SimpleNamespace(name=name, visits=visits, lab=lab) for name in "ab"]
    turns = [(turn.side.name, [visit.block for visit in turn.visits]) for turn in paired_runs._turns(sides)]
    assert turns == [("a", [1, 1]), ("b", [1, 1]), ("b", [2, 2]), ("a", [2, 2]), ("a", [3, 3]), ("b", [3, 3])]


@pytest.mark.parametrize(
    ("names", "options", "complaint"),
    [
        (["paper"], {"repeats": 3}, "--pair: 'paper': name two workloads or two settings files"),
        (["paper", "paper-variants"], {}, "--pair compares blocks: give --repeats 3 or more"),
        (["paper", "nothing"], {"repeats": 3}, "nothing"),
        (["paper", "none.toml"], {"repeats": 3}, "none.toml"),
    ],
)
def test_a_pair_that_cannot_be_compared_is_refused(
    names: list[str], options: Mapping[str, Any], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageFailure, match=complaint):
        paired_runs.run({**EMBEDDED, "results": tmp_path, **options}, Reporter(), names=names)
    assert not list(tmp_path.iterdir())


def test_sides_without_a_cell_in_common_are_refused(tmp_path: Path) -> None:
    for name, version in (("a", "2008"), ("b", "2022")):
        (tmp_path / f"{name}.toml").write_text(f'lab = "embedded"\nserver_versions = "{version}"\n')
    with pytest.raises(UsageFailure, match=r"the sides have no cell in common \(i1-t1-r1-p100-v2008 ... and i1-t1-r1"):
        paired_runs.run(
            {"repeats": 3, "threads": 1, "payloads": 100, "results": tmp_path / "runs"},
            Reporter(),
            names=[str(tmp_path / "a.toml"), str(tmp_path / "b.toml")],
        )
    assert not (tmp_path / "runs").exists()


def test_a_file_of_settings_may_name_a_model(tmp_path: Path) -> None:
    file = tmp_path / "model.toml"
    file.write_text('lab = "simulated"\nhardware = "paper-clients"\n')
    lab = lab_choice.choose({"repeats": 3}, Reporter(), verb="matrix", settings_file=file)
    assert isinstance(lab, InVirtualTime)
    assert (lab.settings.hardware, lab.settings.repeats) == ("paper-clients", 3)
    file.write_text('lab = "simulated"\ndriver = "freetds"\n')
    with pytest.raises(TomlError, match=r"line 2: driver: does not go with the simulated lab: leave it out"):
        lab_choice.choose({}, Reporter(), verb="matrix", settings_file=file)


def test_another_folder_is_no_pair(tmp_path: Path) -> None:
    with pytest.raises(UsageFailure, match=r"is no pair of runs: it has none in a"):
        paired_runs.run({}, Reporter(), resume=tmp_path)


def test_what_both_blocks_have_in_common_does_not_decide() -> None:
    blocks = pd.Index([1, 2, 3, 4], name="block")
    drift = pd.Series(np.log([1.0, 1.5, 2.0, 3.0]), index=blocks)
    b = drift + np.log([1.20, 1.21, 1.19, 1.20])
    apart, in_turns = Design().interval(drift, b, 1), Design(in_turns=True).interval(drift, b, 1)
    assert apart.ratio == pytest.approx(in_turns.ratio) and in_turns.ratio == pytest.approx(1.2, abs=0.01)
    assert apart.low is not None and in_turns.low is not None
    assert apart.low < 1 < in_turns.low
    assert Design(in_turns=True).interval(drift, b[1:], 1).blocks == 3, "a block that one side lacks is left out"


def test_runs_made_in_turns_are_compared_block_by_block_whatever_differs(tmp_path: Path) -> None:
    settings = [{"measure": measure, "lab": "embedded"} for measure in (1.0, 2.0)]
    runs = [
        write_reduced(tmp_path / name, CELLS, factor=factor, blocks=3, settings=setting, pair="20260101-000000-pair")
        for name, factor, setting in zip("ab", (1.0, 0.8), settings, strict=True)
    ]
    text = io.StringIO()
    comparison = compare(*runs, console=SafeConsole(file=text, width=200))
    assert "The runs were made in turns, so each block of b is compared with that of a" in text.getvalue()
    assert "The settings differ (measure: 1.0 / 2.0)" in text.getvalue()
    assert comparison.conclusion.startswith("b processes 20 % fewer messages than a (95 %: −2")
    assert comparison.conclusion.endswith("3 blocks): slower.")


@pytest.mark.thorough
@pytest.mark.process
def test_a_pair_is_run_in_turns_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired_runs, "BLOCKS_MIN", 2)
    monkeypatch.setattr(engine, "MEASURED_MAX", 1)
    options = {**EMBEDDED, "repeats": 2, "results": tmp_path}
    notes = io.StringIO()
    outcomes = paired_runs.run(options, Lines(SafeConsole(file=notes)), names=["paper", "paper-variants"])
    assert re.findall(r"(.: .*)\nlab: embedded", notes.getvalue()) == ["a: paper", "b: paper-variants"]
    assert re.findall(r"(., block . of 2), about (?:\d+ min )?\d+ s left", notes.getvalue()) == [
        "a, block 1 of 2",
        "b, block 1 of 2",
        "b, block 2 of 2",
        "a, block 2 of 2",
    ]
    assert outcomes is not None and [(one.total, one.completed) for one in outcomes] == [(2, 2), (2, 2)]
    [folder] = tmp_path.iterdir()
    manifests = [run_folder.read_manifest(outcome.results) for outcome in outcomes]
    assert {manifest["pair"] for manifest in manifests} == {folder.name}
    assert [manifest["settings"]["workload"]["name"] for manifest in manifests] == ["paper", "paper-variants"]
    lines = outcomes[0].results / journal.NAME
    lines.write_text(lines.read_text().splitlines(keepends=True)[0])
    again = paired_runs.run({}, Reporter(), resume=folder)
    assert again is not None and [(one.total, one.completed) for one in again] == [(2, 2), (2, 2)]
    assert len({(entry.cell, entry.block) for entry in journal.read(lines)}) == 2
