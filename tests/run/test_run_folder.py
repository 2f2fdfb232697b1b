import copy
import shutil
from pathlib import Path

import pytest

from harness.files import settings as settings_module
from harness.files import workload_file
from harness.files.settings import Settings
from harness.lab.drivers import Driver
from harness.run import run_folder
from tests.commands import harness
from tests.unsafe import NAME, unsafe_in

DRIVER = Driver("microsoft", "/somewhere/libmsodbcsql-18.so", "wheel")


def new(**options: object) -> dict[str, object]:
    return run_folder.new_manifest("run", settings_module.create(options, environment={}), cells=3, driver=DRIVER)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    written = new(measure="2s", results=tmp_path) | {"instances": [{"name": NAME}]}
    run_folder.write_manifest(tmp_path, written)
    assert run_folder.read_manifest(tmp_path) == written
    assert unsafe_in((tmp_path / "manifest.json").read_text(), besides="\n") == []
    assert written["settings"]["measure"] == 2.0  # type: ignore[index]
    assert [path.name for path in tmp_path.iterdir()] == ["manifest.json"]


COMMANDS = ("reduce", "figures", "report", "claims", "support-bundle", "compare", "queue-course")
COMMANDS += ("matrix --resume", "simulate --resume", "techniques --add-to")


@pytest.mark.parametrize(
    "command, place",
    [
        *((command, "figures/waits.svg") for command in COMMANDS),
        *(("support-bundle", place) for place in ("error-logs/2022-target.log", "reduced", "support-bundle.zip.tmp")),
    ],
)
def test_a_run_with_a_link_is_refused_and_nothing_behind_it_is_read_or_written(
    tmp_path: Path, command: str, place: str
) -> None:
    run, outside = tmp_path / "run", tmp_path / "outside"
    outside.write_text("of somebody")
    run.mkdir()
    run_folder.write_manifest(run, new())
    (run / place).parent.mkdir(exist_ok=True)
    (run / place).symlink_to(outside)
    more = {"compare": ["run"], "queue-course": ["i1-t1-r1-p100-v2008"]}.get(command, [])
    done = harness(tmp_path, *command.split(), "run", *more)
    assert (done.code, done.line.partition(", and")[0]) == (2, f"run/{place} is a link"), done.line
    assert outside.read_text() == "of somebody" and not (run / "support-bundle.zip").exists()


def test_a_run_may_continue_under_the_same_circumstances_in_another_folder() -> None:
    assert run_folder.differences(new(results="a"), new(results="b")) == []


def test_the_results_folder_of_a_run_to_resume_may_be_named_in_any_way_but_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "results" / "run"
    run.mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "results")
    run_folder.write_manifest(run, new(results=tmp_path / "results"))
    monkeypatch.chdir(tmp_path)
    for named in (Path("results/run"), run, Path("link/run")):
        stored = run_folder.stored_settings(named, Settings, "matrix")
        for given in ({}, {"results": "results"}, {"results": str(tmp_path / "results")}, {"results": "link"}):
            run_folder.require_same(named, stored, Settings(**{**stored, **given}))
    with pytest.raises(run_folder.ResumeRefused, match=r"results is .* in the run and elsewhere now"):
        run_folder.require_same(run, stored, Settings(**{**stored, "results": "elsewhere"}))


@pytest.mark.parametrize("changed", ["orders/submit_order.sql", "run/manifest.json"])
def test_a_run_continues_with_the_files_of_its_workload_alone(tmp_path: Path, changed: str) -> None:
    shutil.copytree(workload_file.FOLDER / "fan-in", tmp_path / "orders")
    (tmp_path / "run").mkdir()
    run_folder.write_manifest(tmp_path / "run", new(workload=workload_file.read(str(tmp_path / "orders"))))
    file = tmp_path / changed
    file.write_text(file.read_text().replace('"submit_order.sql"\n', '"/etc/passwd"\n').replace("USE [", "USE  ["))
    done = harness(tmp_path, "matrix", "--resume", "run")
    assert (done.code, done.line.partition(": ")[2]) == (2, "the workload orders is not as it was in the run"), done.err


def test_every_other_circumstance_is_named_with_both_values() -> None:
    old = new()
    changed = copy.deepcopy(new(measure="3s", seed=7))
    changed["code"] = "0123"
    changed["machine"]["processors"] = 64  # type: ignore[index]
    lines = run_folder.differences(old, changed)
    assert "measure: 1.0 in the run, 3.0 now" in lines
    assert "seed: 1 in the run, 7 now" in lines
    assert f'code: "{old["code"]}" in the run, "0123" now' in lines
    assert any(line.startswith("machine.processors: ") and line.endswith("in the run, 64 now") for line in lines)
    assert len(lines) == 4


def test_a_run_in_virtual_time_has_no_driver_and_cannot_continue_on_other_hardware() -> None:
    settings = settings_module.create_simulation({}, environment={})
    old = run_folder.new_manifest("run", settings, cells=3, driver=None) | {"model": {"client.round_trip_us": 350.0}}
    assert "odbc_driver" not in old["versions"]
    assert run_folder.differences(old, old | {"model": {"client.round_trip_us": 400.0}}) == [
        "model.client.round_trip_us: 350.0 in the run, 400.0 now"
    ]


def test_the_digest_of_the_code_changes_with_a_file_its_name_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "PACKAGE", tmp_path / "harness")
    monkeypatch.setattr(run_folder, "SQL_ROOT", tmp_path / "sql")
    digests = []
    for name, text in (("harness/a.py", "1"), ("harness/a.py", "2"), ("harness/b.py", "2"), ("sql/b.sql", "2")):
        shutil.rmtree(tmp_path)
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
        digests.append(run_folder.code_fingerprint())
    assert len(set(digests)) == len(digests)
