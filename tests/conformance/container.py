"""SQL Server in a container of testcontainers: one for each session, with a random password, on a port of 127.0.0.1."""

import contextlib
import secrets
from collections.abc import Iterator
from pathlib import Path

from docker.errors import DockerException
from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from harness.definitions.lab_kinds import CONTAINERS
from harness.doctor.instance_settings import MAJOR_VERSIONS
from harness.lab.drivers import Secret, choose
from harness.lab.instances import SIDES, Instance, Lab, Login, connections
from tests.conformance.servers import NAME, PORT, NoServer, Server, one_line, wait_until_ready

# A quiet machine needs half a minute; the first start of an image upgrades its system databases.
READY_TIMEOUT_S = 240.0
BROKER_PORT = 5114  # of the Service Broker endpoint, inside the network of the containers


@contextlib.contextmanager
def pair(image: str, folder: Path) -> Iterator[Lab]:
    """Run a target and an initiator on a network of their own, not linked."""
    try:
        network = Network().create()
    except (DockerException, OSError) as error:
        raise NoServer(f"no network of containers: {one_line(error)}") from None
    with contextlib.ExitStack() as stack:
        stack.callback(network.remove)
        instances = []
        for name, database in SIDES[:2]:
            server = stack.enter_context(run(image, name, network))
            address = server.host, server.port, BROKER_PORT
            instances.append(Instance(name, database, *address, choose(), server.login, broker_host=name))
        with connections(instances, "master") as (connection, _):
            number = connection.execute("SELECT CAST(SERVERPROPERTY('ProductVersion') AS varchar(30));").fetchval()
        version = {major: name for name, major in MAJOR_VERSIONS.items()}[int(number.partition(".")[0])]
        yield Lab(CONTAINERS, version, instances[0], instances[1:], folder)


@contextlib.contextmanager
def run(image: str, name: str = NAME, network: Network | None = None) -> Iterator[Server]:
    """Run the generic container. `SqlServerContainer` would pass the password only as SA_PASSWORD, wait for an sqlcmd
    inside the image, and need SQLAlchemy for its address."""
    password = Secret("aA1-" + secrets.token_urlsafe(16))
    try:
        container = DockerContainer(image)
        container.with_envs(ACCEPT_EULA="Y", MSSQL_SA_PASSWORD=str(password)).with_kwargs(hostname=name)
        container.with_exposed_ports(PORT)
        if network is not None:
            container.with_network(network).with_network_aliases(name)
        client = container.get_docker_client()
        if client.get_connection_mode() is ConnectionMode.docker_host and client.host() in ("localhost", "127.0.0.1"):
            # A free port of this address, in docker-py's notation, which testcontainers passes on.
            container.ports[str(PORT)] = ("127.0.0.1", None)  # type: ignore[assignment]
        container.start()
    except (DockerException, OSError) as error:
        raise NoServer(f"container of {image} does not start: {one_line(error)}") from None
    try:
        if reason := death(container, image):
            raise NoServer(reason)
        host = container.get_container_host_ip().replace("localhost", "127.0.0.1")
        port = container.get_exposed_port(PORT)
        server = Server("sqlserver", f"container of {image}", host, port, Login("sa", password))
        wait_until_ready(server, READY_TIMEOUT_S, lambda: death(container, image))
        yield server
    finally:
        container.stop()


def death(container: DockerContainer, image: str) -> str | None:
    """How the container ended, with the last line of its log; None while it runs."""
    try:
        container.reload()
        if container.status not in ("exited", "dead"):
            return None
        lines = b"\n".join(container.get_logs()).decode("utf-8", "replace").strip().splitlines()
    except DockerException as error:
        return f"container of {image} is gone: {one_line(error)}"
    return f"container of {image} ended; its last line: {lines[-1] if lines else '(none)'}"
