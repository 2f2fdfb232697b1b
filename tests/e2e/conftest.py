"""What is costly and therefore made once: the wheel, installed for the tests that use it, a warm JVM for Spark, and
Locust's processes and the instances of an embedded lab."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.lab import drivers, embedded_instances, scripts
from harness.lab.instances import Instance, Lab, connections
from harness.load.locust_clients import LocustClients
from harness.places import CHECKOUT
from harness.sweep import testbed
from harness.techniques import technique_testbeds


@pytest.fixture(scope="module")
def warm_jvm(gateway: Any) -> dict[str, str]:
    """The environment of commands that use one JVM, one after another. A JVM of their own costs each 20 s of a processor."""
    contexts = getattr(getattr(gateway.jvm, "org.apache.spark.SparkContext$"), "MODULE$")
    left = contexts.getActive()
    if left.isDefined():  # by a command that was killed: a JVM has one context at a time
        left.get().stop()
    parameters = gateway.gateway_parameters
    return {
        **os.environ,
        "PYSPARK_GATEWAY_PORT": str(parameters.port),
        "PYSPARK_GATEWAY_SECRET": parameters.auth_token,
    }


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
        for module in (testbed, technique_testbeds):
            patch.setattr(module, "locust_clients", lambda preflight: LentClients(clients))
        yield


class LentProcess:
    """The process of an instance that stays when a lab closes."""

    def __init__(self, instance: Instance) -> None:
        assert instance.process is not None
        self.death = instance.process.death

    def request_stop(self) -> None: ...

    def stop(self, grace_s: float = 5.0) -> None: ...


@pytest.fixture(scope="module")
def warm_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The embedded labs of this module, in its process and with one initiator, have the same instances one after
    another, which lose their databases in between as containers do that go on running.

    Two new ones cost each lab 1.2 s of a processor. It is not for tests of how instances start or end.
    """
    running, version = embedded_instances.running, embedded_instances.VERSIONS[-1]

    @contextlib.contextmanager
    def lent(*, directory: Path, **asked: Any) -> Iterator[Lab]:
        assert asked == {"version": version, "initiators": 1, "driver": chosen}
        instances = [dataclasses.replace(one, process=LentProcess(one)) for one in there.instances]
        for instance in instances:
            with connections([instance], "master") as (connection,):
                scripts.run(connection, "container/drop_database.sql", {"Database": instance.database})
        yield Lab("embedded", version, instances[0], instances[1:], directory)

    chosen = drivers.choose()
    folder = tmp_path_factory.mktemp("lab")
    with (
        running(version=version, initiators=1, directory=folder, driver=chosen) as there,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(embedded_instances, "running", lent)
        yield


@pytest.fixture(scope="session")
def run_installed() -> Callable[..., str]:
    """Run a command that must succeed, without this checkout in its environment; return what it printed."""

    def run(*command: str | Path, cwd: Path, **variables: str) -> str:
        inherited = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            command, cwd=cwd, env=inherited | variables, capture_output=True, text=True, check=False, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory, run_installed: Callable[..., str]) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
    run_installed(*pip, "--wheel-dir", folder, str(CHECKOUT), cwd=folder)
    [path] = folder.glob("service_broker_harness-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory, run_installed: Callable[..., str]) -> Path:
    """The command of an environment that has the wheel, and the packages it needs from this one."""
    environment = tmp_path_factory.mktemp("environment")
    # The wheel is unpacked by this environment's pip, as another would first have to be installed.
    run_installed(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment)
    [packages] = environment.glob("lib/python*/site-packages")
    # A folder that a .pth file adds has its own .pth files left alone: the checkout's editable install stays out.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = environment / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index")
    run_installed(*pip, wheel, cwd=environment)
    where = run_installed(python, "-c", "import harness; print(harness.__file__)", cwd=environment)
    assert where.startswith(str(environment))
    return environment / "bin" / "harness"
