"""Stand-ins for a user's own servers: embedded instances, healthy or faulty, and their lab.toml."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyodbc

from harness.files.settings import child_environment
from harness.lab import drivers
from harness.lab.drivers import Secret
from harness.lab.embedded_instances import free_ports
from tests import commands
from tests.commands import CommandResult
from tests.processes import Child

FAULTY_SERVER = Path(__file__).with_name("faulty_server.py")
PASSWORD = "Stand-in, never 2 be seen!"  # of the login sa, and so of the harness
GENERATED = "aA1!"  # the end of the passwords that the harness generates
PLACES = {
    "databases": "SELECT name FROM sys.databases",
    "endpoints": "SELECT name FROM sys.service_broker_endpoints",
    "logins": "SELECT name FROM sys.server_principals",
    "users of master": "SELECT name FROM master.sys.database_principals",
    "certificates of master": "SELECT name FROM master.sys.certificates",
    "keys of master": "SELECT name FROM master.sys.symmetric_keys",
}


@dataclass
class Server:
    """A process that listens on a fixed port, so that lab.toml can be written before it runs."""

    role: str
    folder: Path
    version: str = "2022"
    port: int = 0
    broker_port: int = 0
    admin_port: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self._held = ExitStack()  # until this server is forgotten
        self.port, self.broker_port, self.admin_port = self._held.enter_context(free_ports(3))

    def start(self, *faults: str, options: Sequence[str] = (), wait: bool = True) -> None:
        words = ["--name", self.role, "--port", str(self.port), "--data", str(self.folder), "--version", self.version]
        words += ["--admin-port", str(self.admin_port)]
        words += [word for fault in faults for word in ("--fault", fault)]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder.parent / f"{self.role}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(FAULTY_SERVER), *words, *options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=child_environment({"HARNESS_PASSWORD": PASSWORD, **self.environment}),
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        assert self.process is not None and self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder.parent / f"{self.role}.log").read_text()
        assert json.loads(line)["port"] == self.port

    def plant(self, *faults: str) -> None:
        """Replace the faults."""
        assert self.process is not None and self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps(faults).encode() + b"\n")
        self.process.stdin.flush()
        while (line := self.process.stdout.readline()) == b"struck\n":
            pass  # by earlier faults
        assert line == b"%d\n" % len(faults), line

    def wait_until_struck(self) -> None:
        """Wait until a fault has made a statement wait."""
        assert self.process is not None and self.process.stdout is not None
        assert self.process.stdout.readline() == b"struck\n"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self) -> None:
        process, self.process = self.process, None
        if process is not None:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.terminate()
            process.wait(timeout=120)
            process.stdout.close()

    @contextmanager
    def connection(self, database: str = "master", *, port: int | None = None) -> Iterator[pyodbc.Connection]:
        text = drivers.choose().connection_string(
            host="127.0.0.1",
            port=port or self.port,
            user="sa",
            password=Secret(PASSWORD),
            database=database,
            program="test",
        )
        connection = pyodbc.connect(text, autocommit=True, timeout=120)
        try:
            yield connection
        finally:
            connection.close()

    def run(self, *statements: str, database: str = "master") -> None:
        with self.connection(database) as connection:
            for statement in statements:
                connection.execute(statement)

    def contents(self) -> dict[str, list[str]]:
        """The objects on the server that outlive a session and are outside user databases."""
        with self.connection() as connection:
            return {
                place: sorted(str(row[0]) for row in connection.execute(query).fetchall())
                for place, query in PLACES.items()
            }


@dataclass
class OwnServers:
    """A target and initiators, their lab.toml, and commands on them."""

    folder: Path
    servers: list[Server] = field(default_factory=list)
    user: str = "sa"
    password: str = PASSWORD

    def lab_file(self, *, version: str = "2022", prefix: str = "ssbh_", **keys: object) -> Path:
        """Write lab.toml. Keys such as `target_port=1` or `initiator_1_host="nowhere"` replace those of a side, or remove
        them if None."""
        lines = [f'version = "{version}"', f'prefix = "{prefix}"']
        for server in self.servers:
            lines.append("[target]" if server.role == "target" else "[[initiator]]")
            side = {"host": "127.0.0.1", "port": server.port, "user": self.user, "broker_port": server.broker_port}
            side["trust_server_certificate"] = True
            begin = server.role.replace("-", "_") + "_"
            side |= {key.removeprefix(begin): value for key, value in keys.items() if key.startswith(begin)}
            lines += [f"{key} = {json.dumps(value)}" for key, value in side.items() if value is not None]
        path = self.folder / "lab.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def begin(self, *arguments: str, **environment: str) -> Child:
        return Child(
            [sys.executable, "-m", "harness", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
            env={**child_environment({"HARNESS_PASSWORD": self.password, **environment}), "COLUMNS": "200"},
        )

    def harness(self, *arguments: str) -> CommandResult:
        """Run a command to its end. Assert that it showed and wrote no password."""
        result = commands.harness(self.folder, *arguments, HARNESS_PASSWORD=self.password)
        self.assert_no_secret(result)
        return result

    def assert_no_secret(self, result: CommandResult) -> None:
        for secret in (PASSWORD, GENERATED):
            assert secret not in result.out + result.err
            for file in self.folder.rglob("*"):
                if file.is_file():
                    assert secret.encode() not in file.read_bytes(), file

    def contents(self) -> list[dict[str, list[str]]]:
        return [server.contents() for server in self.servers]


@contextmanager
def running_servers(
    folder: Path, roles: Sequence[str] = ("target", "initiator-1"), of_target: Mapping[str, str] = {}
) -> Iterator[list[Server]]:
    """Servers of these roles, with their data in folders of these names. They end with the block.

    `of_target` is added to the target's environment.
    """
    servers = [Server(role, folder / role, environment=of_target if role == "target" else {}) for role in roles]
    try:
        for server in servers:
            server.start(wait=False)
        for server in servers:
            server.wait_until_ready()
        yield servers
    finally:
        for server in servers:
            server.stop()


def output_until(process: subprocess.Popen[str], word: str) -> list[str]:
    """The lines up to the first one that contains a word."""
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if word in line:
            return lines
    raise AssertionError(
        f"the command ended without printing {word!r}: {lines} {process.stderr.read() if process.stderr else ''}"
    )
