"""A login without rights on the server: records are missing, this is reported once, and nothing fails."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.lab import drivers, embedded_instances
from harness.lab.drivers import Secret
from harness.lab.instances import Instance, Lab, LabError, Login
from harness.observe import Observers, dialog_pages
from harness.observe.queue_sizes import NAME, QueueSizes
from harness.observe.snapshots import fingerprint

pytestmark = pytest.mark.process

PASSWORD = "Pl@in1234"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    """An instance, for a login with a user in its database and no rights on the server."""
    directory: Path = tmp_path_factory.mktemp("lab")
    with embedded_instances.running(
        version="2022", initiators=1, directory=directory, driver=drivers.choose("auto")
    ) as lab:
        master = replace(lab.target, database="master")
        with master.connect() as connection:
            connection.execute(f"CREATE LOGIN plain WITH PASSWORD = '{PASSWORD}'; CREATE DATABASE db;")
            connection.execute("USE db; CREATE USER plain FOR LOGIN plain;")
            connection.close()
        yield replace(lab.target, database="db", login=Login("plain", Secret(PASSWORD)))


def test_what_the_login_may_not_see_is_not_recorded_and_reported_once(plain: Instance) -> None:
    printed: list[str] = []
    observers = Observers([plain], tell=lambda text: None if text in printed else printed.append(text))
    for _ in range(2):
        observers.begin(1)
        observers.window_begins()
        observers.window_ends()
        assert observers.changes(timeout_s=120) == {}
        assert set(observers.end().records) == {"samples"}
    observers.close()
    assert sorted(text.partition(",")[0] for text in printed) == [
        "target does not show file_io to this login",
        "target does not show index_waits to this login",
        "target does not show latches to this login",
        "target does not show processors to this login",
        "target does not show spinlocks to this login",
        "target does not show waits for pages",
        "target does not show waits to this login",
    ]
    assert all("denied" in text for text in printed)


def test_a_fingerprint_has_the_same_keys_and_says_what_was_refused(plain: Instance) -> None:
    with plain.connect() as connection:
        found = fingerprint(connection)
        connection.close()
    assert found["server"] is not None and found["databases"]
    assert found["system"] is None and found["memory"] is None
    assert {"system", "container", "memory"} <= set(found["refused"])


def test_the_size_of_a_queue_of_an_instance_that_shows_nothing_of_itself_is_not_recorded(
    plain: Instance, tmp_path: Path
) -> None:
    told: list[str] = []
    QueueSizes(Lab(EMBEDDED, "2022", plain, [], tmp_path), told.append).cell_begins("a", tmp_path)
    assert not (tmp_path / NAME).exists()
    size, checkpoint = told
    assert size.startswith("the size of the queue of target is not recorded: ") and "VIEW SERVER STATE" in size
    assert checkpoint.startswith("no checkpoint on target: ") and "permission denied" in checkpoint


def test_the_administrator_connection_is_refused(plain: Instance) -> None:
    with pytest.raises(LabError, match="18456"):
        dialog_pages.located(plain)
