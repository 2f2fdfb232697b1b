"""What `harness support-bundle` packs, and what it removes."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from harness.files.records import NotWritable
from harness.results import support_bundle
from harness.results.run import Run
from tests.results_fixture import manifest
from tests.unsafe import NAME, unsafe_in

SECRET = "S3cr3t!of-the-lab"
FINDING = {"severity": "warning", "instance": "target", "check": "log", "text": "it is full", "remedy": "shrink it"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    for path, text in {
        "manifest.json": json.dumps(manifest("a run", lab="sqlserver", findings={"2022": [FINDING]})),
        "journal.jsonl": "{}",
        "queue-sizes.csv": "a,b",
        "error-logs/2022-target.log": f"Login failed for sa with {SECRET}",
        "lab/logs/locust-worker-1.log": "DRIVER={x};SERVER=h,1433;UID=sa;PWD={an};other};Encrypt=yes",
        "lab/2022/logs/target.log": "x" * 100 + "the end",
        "lab/2022/key.pem": "a key",
        "raw/calls/a.parquet": "records",
        "reduced/cells.csv": "a,b",
        "reduced/bins.csv": "a,b",
        "reduced/cells.parquet": "columns",
    }.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def packed(run: Path) -> dict[str, str]:
    with zipfile.ZipFile(Run(run).support_bundle()) as bundle:
        return {name: bundle.read(name).decode() for name in bundle.namelist()}


def test_it_has_findings_logs_tables_and_circumstances_and_nothing_else(run: Path) -> None:
    found = packed(run)
    assert sorted(found) == [
        "error-logs/2022-target.log",
        "findings.txt",
        "journal.jsonl",
        "lab/2022/logs/target.log",
        "lab/logs/locust-worker-1.log",
        "manifest.json",
        "queue-sizes.csv",
        "reduced/cells.csv",
    ]
    assert found["findings.txt"] == "2022: warning: target, log: it is full; remedy: shrink it\n"
    assert packed(run) == found  # it does not pack itself


def test_secrets_of_the_environment_are_removed_also_as_json_writes_them(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARNESS_PASSWORD_TARGET", SECRET)
    assert packed(run)["error-logs/2022-target.log"] == "Login failed for sa with [removed]"
    monkeypatch.setenv("HARNESS_TOKEN", 'a"b\\c')
    (run / "journal.jsonl").write_text(json.dumps({"reason": os.environ["HARNESS_TOKEN"]}))
    assert packed(run)["journal.jsonl"] == '{"reason": "[removed]"}'


@pytest.mark.parametrize(
    "text, clean",
    [
        ("UID=sa;PWD=abc;Encrypt=yes", "UID=sa;PWD=[removed];Encrypt=yes"),
        ("UID=sa;PWD={a;b}}c};Encrypt=yes", "UID=sa;PWD=[removed];Encrypt=yes"),
        ("HARNESS_PASSWORD_INITIATOR_1=abcd x", "HARNESS_PASSWORD_INITIATOR_1=[removed] x"),
        ("AWS_SECRET_ACCESS_KEY=AKIA x", "AWS_SECRET_ACCESS_KEY=[removed] x"),
        ("CREATE LOGIN x WITH PASSWORD = N'it''s'; GO", "CREATE LOGIN x WITH PASSWORD = [removed]; GO"),
        ("MSSQL_SA_PASSWORD=a-b MORE=1", "MSSQL_SA_PASSWORD=[removed] MORE=1"),
        ('"token": "abc def", "x": 1', '"token": [removed], "x": 1'),
        ("Password did not match that for the login", "Password did not match that for the login"),
    ],
)
def test_what_looks_like_a_secret_is_removed(text: str, clean: str) -> None:
    assert support_bundle.cleaned(text, []) == clean


def test_texts_have_no_control_characters_and_json_stays_json(run: Path) -> None:
    (run / "manifest.json").write_text(json.dumps(manifest("a run", name=NAME), ensure_ascii=False))
    (run / "error-logs" / "2022-target.log").write_text(NAME)
    found = packed(run)
    assert unsafe_in(found, besides="\n") == [] and json.loads(found["manifest.json"])["name"] == NAME


def test_what_is_no_file_is_left_out(run: Path) -> None:
    os.mkfifo(run / "error-logs" / "2025-target.log")
    (run / "reduced" / "gain.csv").mkdir()
    assert {"error-logs/2025-target.log", "reduced/gain.csv"}.isdisjoint(packed(run))


def test_of_a_long_log_the_end_is_kept(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(support_bundle, "TEXT_BYTES_MAX", 7)
    assert packed(run)["lab/2022/logs/target.log"] == "[the first 100 bytes are left out]\nthe end"


def test_a_folder_that_cannot_be_written_is_one_line(run: Path) -> None:
    (run / f"{support_bundle.NAME}.tmp").mkdir()
    with pytest.raises(NotWritable, match="cannot be written: Is a directory"):
        Run(run).support_bundle()
