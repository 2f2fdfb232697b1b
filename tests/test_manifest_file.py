import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.failures import UsageFailure
from harness.figures import circumstances, reduced_run, report
from harness.files import manifest_file
from harness.files import settings as settings_module
from harness.files.json_file import DamagedFile
from harness.files.settings import Settings
from harness.results.run import Run
from harness.run import run_folder, under_way
from harness.simulation import parameters
from tests.examples import share
from tests.results_fixture import quick_cells, write_manifest, write_reduced

FINDING = {"severity": "warning", "instance": "target", "check": "clock", "text": "it differs", "remedy": ""}
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**30), 10**30), st.floats(), st.text(max_size=5), st.just([]), st.just({})
)
ANYWHERE = settings(max_examples=share(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reduced run whose manifest has every part."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    write_reduced(folder, quick_cells(["2022"])[:4], lab="sqlserver")
    made = run_folder.new_manifest("run", settings_module.create({}, environment={}), cells=4, driver=None)
    fingerprint = {"system": {"cpu_count": 8}, "server": {"edition": "Developer"}, "trace_flags": [], "log_storage": {}}
    changes = {
        "lab": "sqlserver",
        "finished_at": made["started_at"],
        "instances": [{"name": "target", "lab_version": "2022", "cpu_count": "8", "fingerprint": fingerprint}],
        "findings": {"2022": [FINDING]},
        "placement": {"2022": {"shared": {"disk": "one"}, "processors": {"target": "0-1"}, "proxied": ""}},
        "model": parameters.read("paper").as_manifest(),
    }
    write_manifest(folder, **made | changes)
    read_everywhere(folder)
    return folder


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value, outermost first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


def read_everywhere(folder: Path) -> None:
    """Do what commands do with a manifest before they do anything else with a run."""
    found = reduced_run.read(folder)
    reduced_run.footer(found)
    reduced_run.clocks(found.manifest)
    report.facts(found)
    reduced_run.origin(found.lab, found.load, found.versions)
    circumstances.forbidding(found, found)
    circumstances.remarkable(found, found)
    Run(folder).support_bundle()
    under_way.so_far(folder, found.manifest, [])
    stored = run_folder.stored_settings(folder, Settings, "matrix")
    run_folder.require_same(folder, stored, Settings(**stored))
    run_folder.differences(found.manifest, found.manifest)


def one_line_or_nothing(folder: Path) -> None:
    try:
        read_everywhere(folder)
    except UsageFailure as error:
        assert "\n" not in str(error) and str(folder) in str(error)


@given(data=st.data())
@ANYWHERE
def test_a_manifest_changed_anywhere_is_read_or_refused_in_one_line(run: Path, data: st.DataObject) -> None:
    path = run / "manifest.json"
    whole = path.read_bytes()
    changed = copy.deepcopy(json.loads(whole))
    *outer, last = data.draw(st.sampled_from(list(places(changed))[1:]))
    holder = changed
    for part in outer:
        holder = holder[part]
    if data.draw(st.booleans()):
        del holder[last]
    else:
        holder[last] = data.draw(VALUES)
    try:
        path.write_text(json.dumps(changed))
        one_line_or_nothing(run)
    finally:
        path.write_bytes(whole)


@given(begin=st.integers(0, 20_000), length=st.integers(0, 200), garbage=st.binary(max_size=20))
@ANYWHERE
def test_a_manifest_with_other_bytes_anywhere_is_read_or_refused_in_one_line(
    run: Path, begin: int, length: int, garbage: bytes
) -> None:
    path = run / "manifest.json"
    whole = path.read_bytes()
    try:
        path.write_bytes(whole[:begin] + garbage + whole[begin + length :])
        one_line_or_nothing(run)
    finally:
        path.write_bytes(whole)


@pytest.mark.parametrize(
    "change, where",
    [
        (lambda text: text[:40], "line 2: no JSON (EOF while parsing a string)"),
        (lambda text: text.replace('"embedded",', "embedded,", 1), "line 3: no JSON (expected value)"),
        (lambda text: text.replace('"cells": 0', '"cells": "0"'), "line 9: cells: should be a valid integer"),
        (lambda text: text.replace('"cells": 0,\n', ""), "line 1: cells: missing"),
        (lambda text: text.replace('"instances": []', '"instances": [{},\n{}]'), "line 23: instances-1.name: missing"),
        (lambda text: "[" * 100_000, "line 1: no JSON (recursion limit exceeded)"),
        (lambda text: "", "line 1: no JSON (EOF while parsing a value)"),
    ],
)
def test_a_damaged_manifest_is_named_with_the_line(tmp_path: Path, change: Callable[[str], str], where: str) -> None:
    write_manifest(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(change(path.read_text()))
    with pytest.raises(DamagedFile) as error:
        manifest_file.read(tmp_path)
    assert str(error.value) == f"{path}, {where}: put back what the harness wrote there"


def test_manifests_of_former_versions_are_read() -> None:
    for path in Path("results/reference").glob("*/manifest.json"):
        assert manifest_file.read(path.parent)["findings"] is not None
