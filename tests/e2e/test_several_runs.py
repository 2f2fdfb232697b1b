"""Runs that are made to be compared, as a user makes them: a pair in turns, and twins."""

import json
import re
from pathlib import Path

import pytest

from harness.experiments import twin_runs
from harness.files.records import State
from tests.commands import harness

pytestmark = [
    pytest.mark.process,
    pytest.mark.spark,
    pytest.mark.thorough,
    pytest.mark.usefixtures("warm_clients", "warm_lab"),
]
RUN = ("--lab", "embedded", "--measure", "200ms", "--settle", "200ms", "--results", "runs")
CELL = (*RUN, "--cells", "i1-t1-r1-p100-v2008", "--repeats", "3")


def test_a_pair_ends_with_a_verdict_and_the_folder_of_its_comparison(tmp_path: Path, warm_jvm: dict[str, str]) -> None:
    sides = "paper, paper-variants"
    done = harness(tmp_path, "matrix", *CELL, "--pair", sides, "--json", "compared.json", **warm_jvm)
    assert done.code == 0, done
    last_line = done.out.splitlines()[-1]
    # On a busy machine perhaps that nobody can tell.
    verdict = re.fullmatch(r"(.+\.) Next: look at (\S+-pair/compared)", last_line)
    assert verdict, last_line
    assert list((tmp_path / verdict[2]).glob("*.csv"))
    assert json.loads((tmp_path / "compared.json").read_text())["conclusion"] == verdict[1]


def test_twins_end_with_what_they_differ_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(twin_runs, "WITH_THROUGHPUT", frozenset(State))  # the machine may be busy
    done = harness(tmp_path, "aa", *RUN, "--threads", "2", "--repeats", "2", "--yes", XDG_STATE_HOME=str(tmp_path))
    assert done.code == 0, done
    assert "of one measurement" in done.out
    sentence = (
        r"By their blocks alone, \d+ of \d+ comparisons of these runs, which measure the same, .* Next: harness compare"
    )
    assert re.match(sentence, done.out.splitlines()[-1])
