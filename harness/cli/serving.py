"""The command of an instance. It imports no settings: a lab starts an instance for each of its servers."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from harness.cli.outcomes import EXIT_CODES, OK, PATH, one_line_errors


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
@click.option("--throwaway", is_flag=True, help="The data is deleted afterwards: hash passwords at little cost.")
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
