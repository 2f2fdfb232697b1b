"""The command that shows queues and what their monitors do."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.conventions import console, metrics_option, settings_options
from harness.cli.outcomes import USAGE, Failure
from harness.output.terminal import say

if TYPE_CHECKING:
    from harness.files.lab_file import Server
    from harness.lab.instances import Instance

_NO_SERVER = (
    "no server named: harness monitors --server HOST,PORT --user NAME, or --lab-file lab.toml; harness lab open and "
    "harness lab status print addresses"
)
_SHORTEST_S = 0.1


@click.command(short_help="Watch queues and monitors of a server; why messages do not move.")
@click.option(
    "--server",
    "addresses",
    metavar="HOST,PORT",
    multiple=True,
    help="A SQL Server, port 1433 if none is given; or more.",
)
@click.option("--user", metavar="NAME", help="SQL login, with its password in HARNESS_PASSWORD (default: integrated).")
@click.option("--trust-server-certificate", "-C", "trust", is_flag=True, help="Verify no certificate, as sqlcmd -C.")
@settings_options("lab_file", "driver")
@click.option(
    "--database",
    "databases",
    metavar="NAME",
    multiple=True,
    help="Only this database (default: all user databases); one for each server in their order, if they differ.",
)
@click.option("--once", is_flag=True, help="Print one state and end, as it does where the output is no terminal.")
@click.option("--json", "as_json", is_flag=True, help="The same as one line of JSON.")
@metrics_option("queues, monitors and conversations")
@click.option("--sql", "as_sql", is_flag=True, help="Print the questions as T-SQL, for SSMS, and ask no server.")
@click.option("--watch", default="1s", show_default=True, metavar="TIME", help="From one look to the next.")
def monitors(
    *,
    addresses: tuple[str, ...],
    user: str | None,
    trust: bool,
    lab_file: Path | None,
    driver: str | None,
    databases: tuple[str, ...],
    once: bool,
    as_json: bool,
    as_sql: bool,
    metrics: int | None,
    watch: str,
) -> None:
    """Show the queues of any SQL Server, what their monitors do, and why messages do not move.

    It only reads, creates nothing, and takes about one per cent of a core of the server at most: where a look is dear,
    it looks less often. A right that the login lacks is named, and the rest is shown. Rates are those between two
    looks. Why messages wait for another server is best seen on both sides: give --server twice.

    Flags: broker-off (the database's), OFF (the queue), idle (its activation is off), event (event notification),
    retains (RETENTION = ON), poison-off (five rollbacks do not switch it off).

    \b
    Examples:
      harness monitors --server sql1.example                            integrated authentication
      read -rs HARNESS_PASSWORD; export HARNESS_PASSWORD                once; then
      harness monitors --server sql1.example,1433 --user me
      harness monitors --server sql1.example --server sql2.example      both sides of a conversation
      harness monitors --server sql1.example --database Shop --server sql2.example --database Stock
      harness monitors --lab-file lab.toml --database Orders --once
      harness monitors --server sql1.example --json | jq .servers[0].explanations
      harness monitors --server sql1.example --metrics 127.0.0.1:9464   goes on, also where there is no terminal
      harness monitors --sql --database Orders > questions.sql          for a machine without the harness
    """
    from harness.definitions.units import counted, parse_duration
    from harness.lab import interruption
    from harness.monitors import as_sql as questions
    from harness.monitors import showing, watching
    from harness.monitors.reading import Reader

    if as_sql and len(databases) > 1:
        raise Failure("--sql takes one --database: its questions are for one connection", USAGE)
    if as_sql:
        for line in questions.lines(databases[0] if databases else None):
            say(line)
        return
    if metrics and (once or as_json):
        raise Failure(f"--metrics goes on: leave out --{'once' if once else 'json'}", USAGE)
    with contextlib.ExitStack() as stack:
        try:
            every_s = parse_duration(watch)
        except ValueError as error:
            raise Failure(f"--watch: {error}", USAGE) from None
        if every_s < _SHORTEST_S:
            raise Failure(f"--watch: {watch} is shorter than 100ms", USAGE)
        instances = _instances(addresses, user, trust, lab_file, driver)
        if len(databases) not in (0, 1, len(instances)):
            raise Failure(
                f"--database: {len(databases)} for {counted(len(instances), 'server')}: give one, or one each", USAGE
            )
        database_names = databases * len(instances) if len(databases) == 1 else databases or (None,) * len(instances)
        alone = len(instances) == 1
        readers = [
            Reader(instance, database=name, alone=alone)
            for instance, name in zip(instances, database_names, strict=True)
        ]
        for reader in readers:
            stack.callback(reader.close)
        stack.enter_context(interruption.noted())
        terminal = console()
        if metrics:
            from harness.load.pages import openmetrics
            from harness.monitors.metrics import ServerMetrics

            servers_now = ServerMetrics()
            stack.enter_context(openmetrics.serving(metrics, servers_now))
            watching.watch(readers, terminal, every_s=every_s, on_looks=servers_now.show)
        if not (once or as_json) and terminal.is_terminal:
            watching.watch(readers, terminal, every_s=every_s)
        servers = watching.look_twice(readers, apart_s=every_s)
        if as_json:
            say(showing.as_json(servers))
            return
        for server in servers:
            say(f"{server.name} {server.address}")
            terminal.print(showing.view(server, terminal, servers))


def _instances(
    addresses: tuple[str, ...], user: str | None, trust: bool, lab_file: Path | None, driver: str | None
) -> list[Instance]:
    """Return the servers that the options name."""
    from harness.lab import drivers, opening, user_servers

    if bool(addresses) == (lab_file is not None):
        raise Failure(_NO_SERVER if not addresses else "--server and --lab-file: leave out one of the two", USAGE)
    if not addresses and (user is not None or trust):
        option, purpose = ("--user", "names the logins") if user else ("-C", "says which certificates are trusted")
        raise Failure(f"{option}: the lab file {purpose}", USAGE)
    drivers.check_manager()
    chosen = opening.select_lab({"lab_file": lab_file, "driver": driver})
    if chosen.topology.lab_file is not None:
        servers = chosen.topology.lab_file.servers
    else:
        servers = tuple(_server(address, user, trust) for address in addresses)
    return [user_servers.instance_of(server, drivers.choose(chosen.settings.driver)) for server in servers]


def _server(address: str, user: str | None, trust: bool) -> Server:
    from harness.files.lab_file import NAMED_INSTANCE, Server

    if "\\" in address:
        raise Failure(f"--server {address}: {NAMED_INSTANCE}", USAGE)
    if re.fullmatch(r"[^:,]+:\d+", address):
        raise Failure(f"--server {address!r} is no address: write {address.replace(':', ',')}", USAGE)
    host, _, port = (part.strip() for part in address.partition(","))
    try:
        return Server(
            role="server",
            host=host,
            port=int(port or 1433),
            user=user,
            authentication="integrated" if user is None else "sql",
            broker_host=host,
            database="master",
            trust_server_certificate=trust,
        )
    except ValueError:
        raise Failure(f"--server {address!r} is no address: write sql1.example,1433", USAGE) from None
