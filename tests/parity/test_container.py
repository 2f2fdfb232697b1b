"""SQL Server in a container, tested with a stand-in for the Docker engine."""

from pathlib import Path

import pyodbc
import pytest
from testcontainers.core.config import ConnectionMode, testcontainers_config

from harness.embedded.versions import NEWEST
from harness.lab.drivers import choose
from tests.conformance import container
from tests.conformance.servers import IMAGE, NoServer
from tests.parity.docker_api import Engine

pytestmark = pytest.mark.process


@pytest.fixture
def docker(monkeypatch: pytest.MonkeyPatch):
    """Make testcontainers use a stand-in engine."""
    monkeypatch.setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
    # Otherwise testcontainers looks for a network if the tests themselves run in a container.
    monkeypatch.setattr(testcontainers_config, "connection_mode_override", ConnectionMode.docker_host)

    def use(engine: Engine) -> Engine:
        monkeypatch.setenv("DOCKER_HOST", engine.address)
        return engine

    return use


def test_a_container_is_ready_when_it_answers_and_gone_afterwards(docker, tmp_path: Path) -> None:
    with docker(Engine(tmp_path)) as engine:
        with container.run(IMAGE) as server:
            connection = pyodbc.connect(server.connection_string(choose(), "master"))
            assert connection.execute("SELECT @@SERVERNAME;").fetchval() == "stand-in"
            connection.close()
            assert engine.created["Image"] == IMAGE
            assert engine.environment["ACCEPT_EULA"] == "Y"
            assert server.origin == f"container of {IMAGE}" and not engine.removed
        assert engine.removed


def test_a_pair_of_containers_has_a_network_on_which_each_has_its_name(docker, tmp_path: Path) -> None:
    with docker(Engine(tmp_path)) as engine:
        with container.pair(IMAGE, tmp_path) as lab:
            [network] = engine.networks
            named = [instance.broker_address for instance in lab.instances]
            assert named == ["TCP://target:5114", "TCP://initiator-1:5114"]
            aliases = engine.created["NetworkingConfig"]["EndpointsConfig"][network]["Aliases"]
            assert (engine.created["Hostname"], aliases) == ("initiator-1", ["initiator-1"])
            assert [instance.database for instance in lab.instances] == ["SSBTarget", "SSBInitiator1"]
            assert lab.version == NEWEST  # the stand-in's
        assert engine.removed and not engine.networks


def test_the_port_is_published_on_this_machine_only(docker, tmp_path: Path) -> None:
    with docker(Engine(tmp_path)) as engine, container.run(IMAGE):
        assert engine.created["HostConfig"]["PortBindings"] == {"1433/tcp": [{"HostIp": "127.0.0.1", "HostPort": ""}]}


def test_every_container_has_its_own_password_and_nothing_shows_it(docker, tmp_path: Path, caplog, capfd) -> None:
    passwords = set()
    for _ in range(2):
        with docker(Engine(tmp_path)) as engine, container.run(IMAGE) as server:
            password = engine.environment["MSSQL_SA_PASSWORD"]
            assert len(password) > 20 and password not in repr(server)
            passwords.add(password)
    assert len(passwords) == 2
    said = caplog.text + "".join(capfd.readouterr())
    assert not any(password in said for password in passwords)


def test_a_container_that_ends_is_an_error_of_one_line_with_the_end_of_its_log(docker, tmp_path: Path) -> None:
    words = "sqlservr: This program requires a machine with at least 2000 megabytes of memory."
    with docker(Engine(tmp_path, dies=words)) as engine:
        with (
            pytest.raises(NoServer, match="ended; its last line: sqlservr: This program requires"),
            container.run(IMAGE),
        ):
            pass
        assert engine.removed


def test_an_engine_that_does_not_answer_is_an_error_of_one_line(docker, tmp_path: Path) -> None:
    with docker(Engine(tmp_path)):
        pass  # nothing listens there any more
    with pytest.raises(NoServer, match="does not start") as caught, container.run(IMAGE):
        pass
    assert "\n" not in str(caught.value)
