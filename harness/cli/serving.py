"""The commands of an instance, a worker and an activator. `serve` imports no settings: a lab starts an instance for
each of its servers."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

import contextlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import click

from harness.cli.outcomes import OK, PATH, PREFLIGHT, USAGE, Failure
from harness.definitions.lab_kinds import EMBEDDED
from harness.embedded.versions import NEWEST, PRODUCTS
from harness.output.terminal import say


@click.command(short_help="Run one instance of the embedded Service Broker.")
@click.option("--name", default=EMBEDDED.name, show_default=True, help="Name of the instance.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=1433, show_default=True, help="Port; 0 takes a free one.")
@click.option(
    "--admin-port",
    type=int,
    metavar="PORT",
    help="Port of the dedicated administrator connection, on 127.0.0.1; 0 takes a free one (default: none).",
)
@click.option("--data", type=PATH, default=Path("data"), show_default=True, metavar="DIR", help="Folder for its data.")
@click.option(
    "--version",
    "server_version",
    type=click.Choice(list(PRODUCTS)),
    default=NEWEST,
    show_default=True,
    help="Version of SQL Server it plays.",
)
@click.option(
    "--certificate",
    type=PATH,
    metavar="FILE",
    help="PEM file of the certificate for TLS (default: a self-signed one, new at each start).",
)
@click.option(
    "--certificate-key", type=PATH, metavar="FILE", help="PEM file of its private key, if that is in a file of its own."
)
@click.option(
    "--statement-budget",
    type=click.FloatRange(min=0, min_open=True),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Processor time that one statement may use, and 200000 rows for each second; beyond it is error 50003.",
)
@click.option("--with-parent", is_flag=True, help="End when standard input ends.")
@click.option("--throwaway", is_flag=True, help="The data is deleted afterwards: hash passwords at little cost.")
@click.option("--verify", type=PATH, metavar="DIR", help="Only check the data in a folder.")
def serve(verify: Path | None, **options: Any) -> None:
    """Run one instance of the embedded Service Broker: a small server that SQL Server's drivers connect to.

    HARNESS_PASSWORD in the environment is the password of the login sa. When the server is ready it prints its
    address as one line of JSON.

    \b
    Examples:
      HARNESS_PASSWORD=secret harness serve --port 1433 --data /tmp/broker
      harness serve --verify /tmp/broker
    """
    if verify is not None:
        from harness.embedded.server import data_folder

        say(data_folder.verify(verify))
        return
    _refuse_compiled_sqlglot()
    from harness.embedded.server import serve as server

    sys.exit(server.main(**options) or OK)


def _refuse_compiled_sqlglot() -> None:
    """Raise Failure with sqlglotc, the compiled sqlglot: its classes cannot be extended, as the embedded T-SQL does."""
    from importlib import metadata

    if any(metadata.distributions(name="sqlglotc")):
        raise Failure(
            "the embedded server does not run with the package sqlglotc: pip uninstall sqlglotc, then "
            f"pip install --force-reinstall sqlglot=={metadata.version('sqlglot')}",
            PREFLIGHT,
        )


@click.command(short_help="Join a run of another machine with the test clients of this one.")
@click.argument("master", metavar="HOST[:PORT]")
@click.option(
    "--processes", type=click.IntRange(min=1), default=1, show_default=True, metavar="N", help="How many workers."
)
def worker(master: str, processes: int) -> None:
    """Join a run that waits for workers (harness matrix --master-bind-host) at the master's address, and at its port
    if that is not 5557. A run takes one worker per initiator, or as many as its --workers-per-initiator says, and ends
    them. This machine needs the same harness, and must reach the initiators under the names in lab.toml. HARNESS_TOKEN
    in the environment is the same on all machines.

    It is the short form of Locust's own command, which takes all of Locust's options:
    locust -f .../harness/load/locustfile.py --worker --master-host HOST --master-port PORT

    \b
    Examples:
      export HARNESS_TOKEN="$(openssl rand -hex 16)"     once; then the same in each shell
      harness matrix --lab-file lab.toml --master-bind-host 10.0.0.5
      harness worker 10.0.0.5                            on each client machine
      harness worker 10.0.0.5:6000 --processes 3         three workers of one machine
    """
    from harness.files.settings import MASTER_PORT, load_token
    from harness.machine.places import LOCUSTFILE

    load_token()
    host, separator, port = master.rpartition(":")
    if not separator:
        host, port = master, str(MASTER_PORT)
    if not host or not port.isdecimal() or not 1 <= int(port) <= 65535:
        raise Failure(f"{master!r} is no address: write 10.0.0.5 or 10.0.0.5:{MASTER_PORT}", USAGE)
    try:
        socket.getaddrinfo(host, None)
    except OSError:
        raise Failure(f"the host {host} is unknown: check its name", PREFLIGHT) from None
    say(f"joining the run at {host}:{port}, or waiting until one listens there; Ctrl-C ends this")
    words = ["--worker", "--master-host", host, "--master-port", port, "--loglevel", "WARNING"]
    if processes > 1:
        words += ["--processes", str(processes)]
    os.execve(
        sys.executable,
        [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), *words],
        {**os.environ, "LOCUST_SKIP_MONKEY_PATCH": "1"},
    )


@click.command(short_help="Start programs that read queues when they have messages.")
@click.argument("config", type=PATH, metavar="CONFIG.toml")
@click.option("--driver", type=click.Choice(("auto", "microsoft", "freetds")), default="auto", help="ODBC driver.")
@click.option("--with-parent", is_flag=True, help="End when standard input ends.")
def activator(config: Path, driver: Any, with_parent: bool) -> None:
    """Start programs when queues need readers, as Microsoft's External Activator does: event notifications of the
    queues say so. Scripts of sql/activation/ create them. Each program receives from its queue and ends when that is
    empty. The activator starts it again where it crashed, keeps between min and max of it, and ends all with itself.

    HARNESS_PASSWORD in the environment is the password of the login. Ctrl-C or SIGTERM end the activator, with
    exit code 0; it runs on where the server is lost.

    \b
    Example:
      harness activator activator.toml

    \b
    activator.toml; relative paths of programs begin where the activator was started:
      [server]
      host = "sql1.example"                    # also, as in lab.toml: port, authentication, encrypt,
      trust_server_certificate = true          # where it is SQL Server's self-signed one
      user = "harness"
      database = "Orders"
      notification_queue = "dbo.Activation"

    \b
      [[queue]]                                # one for each queue
      name = "dbo.Incoming"                    # database: that of [server] by default
      command = [".venv/bin/python", "-m", "harness.activator.reader"]
      min = 0                                  # processes at a time
      max = 4

    The reader of the example is for the tables of sql/target/. A program of your own finds the login in its
    environment: HARNESS_READER_HOST, _PORT, _USER, _DATABASE and _QUEUE, and HARNESS_PASSWORD. What programs write is
    in logs/ beside the file.
    """
    from harness.activator.config import read
    from harness.activator.supervisor import Supervisor
    from harness.lab import drivers

    checked = read(config)
    drivers.check_manager()
    supervisor = Supervisor(checked, drivers.choose(driver), _say_with_time)
    with contextlib.suppress(KeyboardInterrupt):  # to whoever runs it as a service, an end on request is no failure
        supervisor.run(with_parent=with_parent)


def _say_with_time(line: str) -> None:
    """An activator runs for days."""
    say(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {line}")
