"""Commands on labs and single instances."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Any

import click

import harness
from harness.cli.conventions import (
    EXIT_CODES,
    LAB_OPTIONS,
    OK,
    PATH,
    USAGE,
    Failure,
    one_line_errors,
    say,
    settings_options,
)
from harness.matrix import INITIATORS_MAX


@click.group(epilog=EXIT_CODES, short_help="Instances to try things on; containers; clean-up of your servers.")
def lab() -> None:
    """Labs without load: instances to try things on, containers, and what the harness created on your own servers.

    \b
    Examples:
      harness lab open --lab embedded --initiators 2    linked instances until Ctrl-C
      ACCEPT_EULA=Y harness lab up                      SQL Server in containers, left running
      harness lab status
      harness lab down
      harness lab clean --lab-file lab.toml             removes all that the harness created
    """


@lab.command(name="open", epilog=EXIT_CODES, short_help="Start linked instances and show how to connect.")
@settings_options(*LAB_OPTIONS, "workload", "settings")
@click.option("--initiators", default="1", show_default=True, metavar="N", help="How many initiators.")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the lab's newest).")
def open_(initiators: str, server_version: str | None, settings_file: Path | None, **options: Any) -> None:
    """Start a target and initiators, linked, and show how to connect; Ctrl-C ends them.

    \b
    Examples:
      harness lab open
      harness lab open --initiators 3
      harness lab open --lab-file lab.toml
    """
    from harness.lab import opening

    with (
        one_line_errors(),
        harness.open_lab(
            initiators=initiators, server_version=server_version, settings_file=settings_file, tell=say, **options
        ) as opened,
    ):
        for line in opening.how_to_connect(opened):
            say(line)
        say("Ctrl-C ends the lab.")
        while True:
            opened.check()
            signal.sigtimedwait((), 1.0)


@lab.command(epilog=EXIT_CODES, short_help="Start the containers and leave them running.")
@click.option(
    "--initiators",
    type=click.IntRange(1, INITIATORS_MAX),
    metavar="N",
    help=f"How many initiators, at most {INITIATORS_MAX} (default MSSQL_INITIATORS, or 3).",
)
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server.")
def up(initiators: int | None, server_version: str | None) -> None:
    """Start the target and the initiators in containers, and leave them running for sweeps.

    MSSQL_INITIATORS in the environment or in .env says how many initiators the lab has; docker-compose.yml lists more.

    \b
    Examples:
      ACCEPT_EULA=Y harness lab up --server-version 2022
      ACCEPT_EULA=Y harness lab up --initiators 5
    """
    from harness.lab import containers
    from harness.lab.opening import Topology

    with one_line_errors():
        lab_has = Topology("containers").initiators_usual
        containers.up(server_version or containers.SWEEP_VERSIONS[-1], initiators or lab_has, say)


@lab.command(epilog=EXIT_CODES, short_help="Stop and remove the containers and their data.")
def down() -> None:
    """Stop and remove the containers, their network and their data.

    \b
    Example:
      harness lab down
    """
    from harness.lab import containers

    with one_line_errors():
        containers.down(say)


@lab.command(epilog=EXIT_CODES, short_help="Show which containers run.")
def status() -> None:
    """Show which containers run, their versions and health, and how to connect.

    \b
    Example:
      harness lab status
    """
    from harness.lab import containers

    with one_line_errors():
        for line in containers.status():
            say(line)


@lab.command(epilog=EXIT_CODES, short_help="Remove everything that the harness created on your servers.")
@settings_options("lab_file", "driver", "settings")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
def clean(yes: bool, settings_file: Path | None, **options: Any) -> None:
    """Remove everything that the harness created on your own servers, and nothing else.

    \b
    Example:
      harness lab clean --lab-file lab.toml
    """
    from harness.lab import drivers, opening, user_servers

    with one_line_errors():
        chosen = opening.select_lab(options, settings_file=settings_file)
        if chosen.topology.lab_file is None:
            raise Failure("no servers named: harness lab clean --lab-file lab.toml", USAGE)
        drivers.check_manager()
        user_servers.clean(
            chosen.topology.lab_file,
            driver=drivers.choose(chosen.settings.driver),
            tell=say,
            confirm=lambda question: yes or not sys.stdin.isatty() or click.confirm(question),
        )


@click.command(epilog=EXIT_CODES, short_help="Examine a lab: what would go wrong, and the remedy.")
@settings_options(*LAB_OPTIONS, "workload", "settings")
@click.option("--initiators", default="1", show_default=True, metavar="N", help="How many initiators.")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the lab's newest).")
def doctor(initiators: str, server_version: str | None, settings_file: Path | None, **options: Any) -> None:
    """Open a lab, examine its services and their links as ssbdiagnose would, and print every finding with its remedy.

    Every sweep begins with the same examination.

    \b
    Examples:
      harness doctor
      harness doctor --lab-file lab.toml --initiators 3
    """
    from harness.doctor import raise_errors

    with one_line_errors():
        findings = harness.examine_lab(
            initiators=initiators, server_version=server_version, settings_file=settings_file, tell=say, **options
        )
        for finding in findings:
            say(str(finding))
        raise_errors(findings)
        say("No finding is an error: cells can run on this lab.")


@click.command(epilog=EXIT_CODES, short_help="Run one instance of the embedded Service Broker.")
@click.option("--name", default="embedded", show_default=True, help="Name of the instance.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=1433, show_default=True, help="Port; 0 takes a free one.")
@click.option(
    "--admin-port",
    type=int,
    metavar="PORT",
    help="Port of the dedicated administrator connection, on 127.0.0.1; 0 takes a free one (default: none).",
)
@click.option(
    "--data",
    type=PATH,
    default=Path("data"),
    show_default=True,
    metavar="DIR",
    help="Folder for its data.",
)
@click.option("--version", "server_version", default="2008", show_default=True, help="Version of SQL Server it plays.")
@click.option(
    "--certificate",
    type=PATH,
    metavar="FILE",
    help="PEM file of the certificate for TLS (default: a self-signed one, new at each start).",
)
@click.option(
    "--certificate-key", type=PATH, metavar="FILE", help="PEM file of its private key, if that is in a file of its own."
)
@click.option("--with-parent", is_flag=True, help="End when standard input ends.")
def serve(**options: Any) -> None:
    """Run one instance of the embedded Service Broker: a small server that SQL Server's drivers connect to.

    HARNESS_SA_PASSWORD in the environment is the password of the login sa. When the server is ready it prints its
    address as one line of JSON.

    \b
    Example:
      HARNESS_SA_PASSWORD=secret harness serve --port 1433 --data /tmp/broker
    """
    with one_line_errors():
        from harness.embedded.server import serve as server

        sys.exit(server.main(**options) or OK)
