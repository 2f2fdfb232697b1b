"""Fixtures of what a run starts, for several runs one after another: Locust's processes, and the instances of a lab."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.definitions.lab_kinds import EMBEDDED
from harness.lab import drivers, embedded_instances, scripts
from harness.lab.instances import Instance, Lab, connections
from harness.lab.processes import Child
from harness.load.locust_clients import LocustClients
from harness.run import testbed


class LentClients:
    """Test clients that stay when a run ends."""

    def __init__(self, clients: LocustClients) -> None:
        self._clients = clients

    def close(self) -> None:
        self._clients.end_cell()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._clients, name)


@pytest.fixture(scope="module")
def warm_clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The runs of this module, in its process and with one initiator, have the same Locust processes one after another.

    New ones cost each run 1.2 s of a processor. It is not for tests of how these processes start or end.
    """
    with (
        LocustClients(log_directory=tmp_path_factory.mktemp("clients")) as clients,
        pytest.MonkeyPatch.context() as patch,
    ):
        clients.launch(1)
        patch.setattr(testbed, "locust_clients", lambda preflight: LentClients(clients))
        yield


class LentProcess:
    """The process of an instance that stays when a lab closes."""

    def __init__(self, instance: Instance) -> None:
        assert isinstance(instance.process, Child)
        self.death, self.pid = instance.process.death, instance.process.pid

    def request_stop(self) -> None: ...

    def stop(self, grace_s: float = 5.0) -> None: ...


@pytest.fixture(scope="module")
def warm_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The embedded labs of this module, in its process and with one initiator, have the same instances one after
    another, which lose their databases in between as containers do that go on running.

    Two new ones cost each lab 1.2 s of a processor. It is not for tests of how instances start or end.
    """
    running, version = embedded_instances.running, embedded_instances.SWEEP_VERSIONS[-1]

    @contextlib.contextmanager
    def lent(*, directory: Path, **asked: Any) -> Iterator[Lab]:
        assert asked == {"version": version, "initiators": 1, "driver": chosen}
        instances = [dataclasses.replace(one, process=LentProcess(one)) for one in there.instances]
        for instance in instances:
            with connections([instance], "master") as (connection,):
                scripts.run(connection, "container/drop_database.sql", {"Database": instance.database})
        yield Lab(EMBEDDED, version, instances[0], instances[1:], directory)

    chosen = drivers.choose()
    folder = tmp_path_factory.mktemp("lab")
    with (
        running(version=version, initiators=1, directory=folder, driver=chosen) as there,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(embedded_instances, "running", lent)
        yield
