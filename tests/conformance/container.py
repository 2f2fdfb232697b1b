"""SQL Server in a container of testcontainers: one for each session, with a random password, on a port of 127.0.0.1."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator

from docker.errors import DockerException
from testcontainers.core.config import ConnectionMode
from testcontainers.core.container import DockerContainer

from harness.lab.drivers import Secret
from tests.conformance.servers import NAME, PORT, NoServer, Server, connection_string, one_line, wait_until_ready

# A quiet machine needs half a minute; the first start of an image upgrades its system databases.
READY_TIMEOUT_S = 240.0


@contextlib.contextmanager
def run(image: str) -> Iterator[Server]:
    """Run the generic container. `SqlServerContainer` would pass the password only as SA_PASSWORD, wait for an sqlcmd
    inside the image, and need SQLAlchemy for its address."""
    password = Secret("aA1-" + secrets.token_urlsafe(16))
    try:
        container = DockerContainer(image)
        container.with_envs(ACCEPT_EULA="Y", MSSQL_SA_PASSWORD=str(password)).with_kwargs(hostname=NAME)
        container.with_exposed_ports(PORT)
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
        server = Server("sqlserver", f"container of {image}", connection_string(host, port, "sa", password))
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
