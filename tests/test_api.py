"""What is public to Python: light to import, named like the command line, and wrong names are one line with the nearest."""

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

import harness
from harness import cli
from harness.files.settings import Settings, SimulationSettings

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "plan": harness.plan_matrix,
    "matrix": harness.run_matrix,
    "run": harness.run_cell,
    "simulate": harness.simulate,
    "rates": harness.run_rates,
    "techniques": harness.run_techniques,
    "aa": harness.run_twins,
    "soak": harness.run_soak,
    "doctor": harness.examine_lab,
    "lab open": harness.open_lab,
}
# What is the command line's alone: what it asks and prints, the checklist, the files of doctor --script, and harness simulate --faults.
OF_THE_TERMINAL = {"quick", "yes", "web", "pair", "only_sweep", "list_cells", "first_run", "script", "faults", "seeds"}
OF_THE_TERMINAL |= {"json_file", "metrics"}  # from Python: Run.document, and a reporter


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.process
def test_importing_harness_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import harness; print(sorted(set(sys.modules) - before))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "['harness']"


def test_what_is_public_is_documented_where_it_is_named() -> None:
    assert harness.__doc__ is not None
    for name in harness.__all__:
        assert f"`{name}`" in harness.__doc__
        assert getattr(harness, name).__doc__
    assert set(harness.__all__) <= set(dir(harness))


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="run_matrx"):
        harness.run_matrx  # noqa: B018


@pytest.mark.parametrize("command", FUNCTIONS)
def test_every_option_of_a_command_is_a_keyword_of_its_function(command: str) -> None:
    found: click.Command | None = cli.harness
    for word in command.split():
        assert isinstance(found, click.Group)
        found = found.get_command(click.Context(found), word)
        assert found is not None
    options = {str(parameter.name) for parameter in found.params} - OF_THE_TERMINAL
    named = set(inspect.signature(FUNCTIONS[command]).parameters)
    assert options - named <= {*Settings.model_fields, *SimulationSettings.model_fields}


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: harness.run_matrix(lab="embedded", mesure="2s"), r"mesure: unknown key; nearest: measure"),
    (lambda: harness.run_matrix(lab="embedded", measure="soon"), r"invalid duration 'soon'"),
    (lambda: harness.run_matrix(lab="embeded"), r"unknown lab 'embeded'; nearest: embedded"),
    (lambda: harness.run_matrix(lab="embedded", matrix=Path("nowhere.toml")), r"nowhere\.toml"),
    (lambda: harness.run_cell("i9-t5", lab="embedded", reduce=False), r"no cell matches 'i9-t5'"),
    (lambda: harness.run_cell(lab="embedded", threads=0, reduce=False), r"threads 0 is not valid: 1 to 1,000"),
    (lambda: harness.run_rates("i1-t10", lab="embeded"), r"unknown lab 'embeded'"),
    (lambda: harness.run_techniques(lab="embeded"), r"unknown lab 'embeded'"),
    (lambda: harness.simulate(lab="embedded"), r"leave lab out"),
    (lambda: harness.simulate(lab_file="lab.toml"), r"--lab-file does not go"),
    (lambda: harness.simulate(hardware="papper"), r"papper"),
    (lambda: harness.examine_lab(lab="embedded", initiators=99), r"initiators 99 is not valid: 1 to 16"),
    (lambda: harness.plan_matrix(lab="embedded", cells="i9-*"), r"no cell matches 'i9-\*'"),
    (lambda: harness.Run("nowhere"), r"nowhere is not a result folder: it does not exist"),
]


@pytest.mark.parametrize("call, message", WRONG, ids=[message for _, message in WRONG])
def test_what_is_wrong_is_one_line_and_nothing_starts(call: Callable[[], Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(harness.UsageFailure, match=message) as raised:
        call()
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_plan_names_cells_and_seconds() -> None:
    plan = harness.plan_matrix(lab="embedded", threads=[1, 10], payloads=[100], initiators=[1], server_versions="2008")
    assert sorted(plan.cells) == [f"i1-t{threads}-r{ratio}-p100-v2008" for threads in (1, 10) for ratio in (1, 150)]
    assert plan.length_s > 4 * 1.0  # four cells are measured for a second each
