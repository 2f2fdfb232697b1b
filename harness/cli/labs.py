"""Commands on labs and single instances."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import click

import harness
from harness.cli.conventions import LAB_OPTIONS, json_option, settings_options
from harness.cli.outcomes import PATH, USAGE, Failure
from harness.definitions.lab_kinds import CONTAINERS
from harness.definitions.matrix import INITIATORS_MAX
from harness.output.terminal import say


@click.group(short_help="Instances to try things on; containers; clean-up of your servers.")
def lab() -> None:
    """Labs without load: instances to try things on, containers, and what the harness created on your own servers.

    \b
    Examples:
      harness lab open --lab embedded --initiators 2    linked instances until Ctrl-C
      ACCEPT_EULA=Y harness lab up                      SQL Server in containers, left running
      harness lab status
      harness lab down
      harness lab new                                   asks for your own servers, and writes lab.toml
      harness lab clean --lab-file lab.toml             removes all that the harness created
    """


@lab.command(name="open", short_help="Start linked instances and show how to connect.")
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

    with harness.open_lab(
        initiators=initiators, server_version=server_version, settings_file=settings_file, tell=say, **options
    ) as opened:
        for line in opening.how_to_connect(opened):
            say(line)
        say("Ctrl-C ends the lab.")
        while True:
            opened.check()
            signal.sigtimedwait((), 1.0)


@lab.command(short_help="Start the containers and leave them running.")
@click.option(
    "--initiators",
    type=click.IntRange(1, INITIATORS_MAX),
    metavar="N",
    help=f"How many initiators, at most {INITIATORS_MAX} (default MSSQL_INITIATORS, or 3, or 1 on few processors).",
)
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server.")
def up(initiators: int | None, server_version: str | None) -> None:
    """Start the target and the initiators in containers, and leave them running for sweeps.

    MSSQL_INITIATORS in the environment or in .env says how many initiators the lab has; docker-compose.yml lists more.
    Each container gets cores of its own if this machine has a core for each and one for the clients.

    \b
    Examples:
      ACCEPT_EULA=Y harness lab up --server-version 2022
      ACCEPT_EULA=Y harness lab up --initiators 5
    """
    from harness.lab import containers
    from harness.lab.opening import Topology

    lab_has = Topology(CONTAINERS).initiators_usual
    containers.up(server_version or containers.SWEEP_VERSIONS[-1], initiators or lab_has, say)


@lab.command(short_help="Stop and remove the containers and their data.")
def down() -> None:
    """Stop and remove the containers, their network and their data.

    \b
    Example:
      harness lab down
    """
    from harness.lab import containers

    containers.down(say)


@lab.command(short_help="Show which containers run.")
def status() -> None:
    """Show which containers run, their versions and health, and how to connect.

    \b
    Example:
      harness lab status
    """
    from harness.lab import containers

    for line in containers.status():
        say(line)


@lab.command(short_help="Describe your own servers in a lab.toml, by answering questions.")
@click.argument("file", type=PATH, default="lab.toml")
def new(file: Path) -> None:
    """Ask for your own servers and write FILE (lab.toml), which --lab-file takes; then examine them, if you like.

    No password is asked for: HARNESS_PASSWORD has it, or each command asks.

    \b
    Examples:
      harness lab new
      harness lab new test-lab.toml
    """
    from harness.cli import new_lab

    if file.exists():
        raise Failure(f"{file} exists: name another file", USAGE)
    if not (sys.stdin and sys.stdin.isatty()):
        raise Failure("standard input is no terminal, so nobody can be asked: see sql/server/README.md", USAGE)
    new_lab.write(file)
    say(f"wrote {file}; next: harness doctor --lab-file {shlex.quote(str(file))}")
    if click.confirm("Examine the servers now? You are asked again before anything is created"):
        click.get_current_context().invoke(doctor, initiators="1", settings_file=None, lab_file=file)


@lab.command(short_help="Remove everything that the harness created on your servers.")
@settings_options("lab_file", "driver", "settings")
@click.option("--yes", is_flag=True, help="Do not ask before removing.")
def clean(yes: bool, settings_file: Path | None, **options: Any) -> None:
    """Remove everything that the harness created on your own servers, and nothing else.

    It shows what is there and asks. Without a terminal it needs --yes.

    \b
    Examples:
      harness lab clean --lab-file lab.toml
      harness lab clean --lab-file lab.toml --yes       in a script
    """
    from harness.lab import drivers, opening, user_servers

    chosen = opening.select_lab(options, settings_file=settings_file)
    if chosen.topology.lab_file is None:
        raise Failure("no servers named: harness lab clean --lab-file lab.toml", USAGE)
    if not yes and not (sys.stdin and sys.stdin.isatty()):
        raise Failure("standard input is no terminal, so nobody can be asked: add --yes to remove", USAGE)
    drivers.check_manager()
    user_servers.clean(
        chosen.topology.lab_file,
        driver=drivers.choose(chosen.settings.driver),
        tell=say,
        confirm=lambda question: yes or click.confirm(question),
    )


@click.command(short_help="Examine a lab: what would go wrong, and the remedy.")
@settings_options(*LAB_OPTIONS, "workload", "settings")
@click.option("--initiators", default="1", show_default=True, metavar="N", help="How many initiators.")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the newest of a sweep).")
@click.option(
    "--first-run", is_flag=True, help="Walk the checklist of a first run: driver, lab, two cells, evidence, report."
)
@click.option("--yes", is_flag=True, help="Do not ask before anything is created on your own servers.")
@click.option(
    "--script",
    metavar="DIR",
    type=PATH,
    help="Ask no server: write what would be executed on your own servers, and what removes it, as files into DIR.",
)
@json_option("the findings")
def doctor(  # noqa: PLR0917
    initiators: str,
    server_version: str | None,
    first_run: bool,
    yes: bool,
    script: Path | None,
    json_file: Path | None,
    settings_file: Path | None,
    **options: Any,
) -> None:
    """Open a lab, examine its services and their links as ssbdiagnose would, and print every finding with its remedy.

    Every sweep begins with the same examination. With --first-run two cells and their report follow, and the walk ends
    at the first step that differs from what sql/server/README.md expects.

    \b
    Examples:
      harness doctor
      harness doctor --lab-file lab.toml --initiators 3
      harness doctor --lab-file lab.toml --first-run
      harness doctor --lab-file lab.toml --json findings.json
      harness doctor --lab-file lab.toml --script for-change-control
    """
    from harness.cli import first_run as checklist

    lab: dict[str, Any] = {"initiators": initiators, "server_version": server_version, "settings_file": settings_file}
    if json_file and (script or first_run):
        raise Failure(f"--json: not with --{'script' if script else 'first-run'}, leave it out", USAGE)
    if script is not None:
        return _write_scripts(script, initiators, options, settings_file)
    if first_run:
        return checklist.walk(**lab, ask=not yes, options=options)
    checklist.examine(**lab, ask=not yes, json_file=json_file, **options)
    say("No finding is an error: cells can run on this lab.")


def _write_scripts(folder: Path, initiators: str, options: dict[str, Any], settings_file: Path | None) -> None:
    for path in harness.write_lab_scripts(folder, initiators=initiators, settings_file=settings_file, **options):
        say(f"wrote {path}")
    say("no server was asked: all files 1 go before the files 2, whose variables they print; the files 3 remove all")
