"""What the error logs of a lab's instances say of its time, on a real instance."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.lab import drivers, embedded_instances
from harness.lab.drivers import Secret
from harness.lab.instances import Instance, Login
from harness.observe.error_logs import FOLDER, ErrorLogs
from tests.waiting import wait_until

pytestmark = pytest.mark.process

PASSWORD = "Pl@in1234"


@pytest.fixture(scope="module")
def instance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    directory = tmp_path_factory.mktemp("lab")
    driver = drivers.choose("auto")
    with embedded_instances.running(version="2022", initiators=1, directory=directory, driver=driver) as lab:
        yield replace(lab.target, database="master")


def log(instance: Instance, text: str) -> None:
    """Log a text, and return when the server's clock, of 1/300 s, shows another time."""
    with instance.connect() as connection:
        connection.execute(f"RAISERROR (N'{text}', 10, 1) WITH LOG;")
        [logged] = connection.execute("SELECT GETDATE();").fetchone()
        wait_until(lambda: connection.execute("SELECT GETDATE();").fetchval() > logged)


def test_entries_since_the_lab_opened_are_kept_and_added_to_what_was_kept(instance: Instance, tmp_path: Path) -> None:
    told: list[str] = []
    for number in range(2):
        log(instance, f"before {number}")
        logs = ErrorLogs([instance], "2022", tmp_path, told.append)
        log(instance, f"meanwhile {number}")
        logs.keep()
    lines = (tmp_path / FOLDER / "2022-target.log").read_text().splitlines()
    assert [line[-11:] for line in lines if line.endswith(("0", "1"))] == ["meanwhile 0", "meanwhile 1"]
    assert told == []


def test_a_login_that_may_not_read_the_log_is_told_and_leaves_no_file(instance: Instance, tmp_path: Path) -> None:
    with instance.connect() as connection:
        connection.execute(f"CREATE LOGIN plain WITH PASSWORD = '{PASSWORD}';")
    told: list[str] = []
    ErrorLogs([replace(instance, login=Login("plain", Secret(PASSWORD)))], "2022", tmp_path, told.append).keep()
    [text] = told
    assert text.startswith("the error log of target is not kept: ") and "denied" in text
    assert not (tmp_path / FOLDER).exists()


def test_a_folder_that_cannot_be_written_is_told(instance: Instance, tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("a file")
    told: list[str] = []
    logs = ErrorLogs([instance], "2022", tmp_path, told.append)
    log(instance, "meanwhile")
    logs.keep()
    assert told == ["the error log of target is not kept: File exists"]
