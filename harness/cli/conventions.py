"""What commands share: options that are settings, and tables."""

# ruff: noqa: PLC0415  only a command that prints a table imports what prints tables

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import harness
from harness.cli.outcomes import CELLS_FAILED, PATH, PREFLIGHT, USAGE, Failure
from harness.definitions import lab_kinds
from harness.files import settings as settings_module
from harness.files import workload_file

if TYPE_CHECKING:
    from harness.output.reporting import Reporter, SafeConsole

Function = Callable[..., Any]
_SERVER_OPTIONS = ("lab_file", "dialog_security", "endpoint_encryption", "driver")
LAB_OPTIONS = ("lab", *_SERVER_OPTIONS)
ANY_LAB_OPTIONS = ("any_lab", *_SERVER_OPTIONS)  # of commands that also run on a model
# Of the test clients.
CLIENT_OPTIONS = ("workers_per_initiator", "master_bind_host", "master_bind_port")
MATRIX_OPTIONS = ("matrix", "initiators", "threads", "ratios", "payloads", "cells", "quick")
FREED_WITHIN_S = 3.0  # a port, by a process that is about to end, such as the command before


def _option(name: str, metavar: str, help_text: str, **more: Any) -> Callable[[Function], Function]:
    return click.option(name, metavar=metavar, help=help_text, **more)


def _no_quick(context: click.Context, parameter: click.Parameter, is_given: bool) -> None:
    if is_given:
        raise click.UsageError("--quick is now --matrix quick", context)


_SETTINGS: Mapping[str, Callable[[Function], Function]] = {
    "lab": _option(
        "--lab",
        "NAME",
        f"Where the instances run: {' or '.join(lab_kinds.SERVER_NAMES)}. Default: sqlserver where a Docker engine "
        "answers or --lab-file names servers, else embedded.",
    ),
    "any_lab": _option(
        "--lab",
        "NAME",
        f"Where the instances run: {', '.join(lab_kinds.NAMES[:-1])} or {lab_kinds.NAMES[-1]}. Default: sqlserver "
        "where a Docker engine answers or --lab-file names servers, else embedded.",
    ),
    "lab_file": _option("--lab-file", "FILE", "lab.toml, which describes your own SQL Servers.", type=PATH),
    "server_versions": _option(
        "--server-versions",
        "LIST",
        "Versions of SQL Server to sweep, separated by spaces (containers: default '2022 2025').",
    ),
    "dialog_security": click.option(
        "--dialog-security/--no-dialog-security",
        default=None,
        help="Encrypt and sign dialogs with certificates (default, as in the paper), or do not.",
    ),
    "endpoint_encryption": click.option(
        "--endpoint-encryption/--no-endpoint-encryption",
        default=None,
        help="Encrypt connections between instances too (default: no, as in the paper).",
    ),
    "workload": _option(
        "--workload",
        "NAME",
        f"What is sent, and what is done with it: {', '.join(workload_file.PRESETS)} (default paper), or the folder "
        "of a workload.toml; harness workload new writes one.",
    ),
    "driver": _option("--driver", "NAME", "ODBC driver: auto (default), microsoft or freetds."),
    "workers_per_initiator": _option(
        "--workers-per-initiator",
        "N",
        "Divide the threads of each initiator among so many Locust workers, each a process (default 1): threads of one "
        "process wait for each other's Python.",
    ),
    "master_bind_host": _option(
        "--master-bind-host",
        "ADDRESS",
        "Address of this machine on which Locust's master waits for workers of other machines; "
        "harness worker starts them (default: workers of this machine, on 127.0.0.1).",
    ),
    "master_bind_port": _option("--master-bind-port", "PORT", "The same: its port (default 5557)."),
    "measure": _option(
        "--measure",
        "TIME",
        "Length of a cell's measured window: 500ms, 2m ... (default 30s, embedded and simulated 1s).",
    ),
    "settle": _option(
        "--settle",
        "TIME",
        "Longest wait for a steady state before it (default 90s, embedded 2.5s, simulated 1s); first cells twice.",
    ),
    "drain": _option("--drain", "TIME", "Longest wait until all messages are processed (default 2m, embedded 1m)."),
    "rate": _option(
        "--rate",
        "RATE",
        "Open loop: each initiator's clients send at this rate, 500/s or 30/min, whatever the answers take, and a "
        "latency counts from the intended start. Default: closed loop, as in the paper: each thread sends again when "
        "its call has returned.",
    ),
    "arrivals": _option(
        "--arrivals", "NAME", "Intended starts with --rate: constant intervals (constant, default) or poisson."
    ),
    "events": click.option(
        "--events/--no-events",
        default=None,
        help="Record Extended Events of each cell (waits for latches, activation), in its first block, for three "
        "seconds after the measured window. Only on SQL Server (default: no).",
    ),
    "seed": _option("--seed", "NUMBER", "Seed of the cells' order, Poisson arrivals and a model (default 1)."),
    "results": _option("--results", "DIR", "Folder in which the run gets its own folder (default results).", type=PATH),
    "cells": _option(
        "--cells",
        "PATTERN",
        "Shell pattern on cell ids such as i1-t5-r150-p100-v2022 (i1-t5 means i1-t5-*); "
        "repeat it, or separate several by spaces.",
        multiple=True,
    ),
    "matrix": _option(
        "--matrix",
        "NAME",
        "Which cells: paper (default), quick (24 of them), trick (does it pay here?), ratio, threads, or a TOML file "
        "as harness/files/matrix_file.py describes it.",
    ),
    "initiators": _option("--initiators", "LIST", "Numbers of initiators, 1,2, in place of the matrix's."),
    "threads": _option("--threads", "LIST", "Client threads per initiator, 1,64,500, likewise."),
    "ratios": _option("--ratios", "LIST", "Dialog ratios, 1,150, likewise; with 150 every 150th dialog is used."),
    "payloads": _option("--payloads", "LIST", "Bytes a message, 100,4000,8KB, likewise."),
    "repeats": _option("--repeats", "N", "Run every cell so often, in blocks: each is one pass over them (default 1)."),
    "precision": _option(
        "--precision",
        "PERCENT",
        "Repeat a pair of cells until the 95 % interval of its gain is narrower than this, such as 10%; --repeats "
        "limits the blocks.",
    ),
    "blocks": _option(
        "--blocks",
        "fresh|warm",
        "With --repeats: restart the instances and build new dialogs for each block (fresh, default), or keep them: "
        "faster, but what differs from start to start is then in no interval.",
    ),
    "warm_up": _option(
        "--warm-up",
        "all|used",
        "Which dialogs of a pool send a message before the load: all, as in the paper (default on SQL Server), or only "
        "those that a cell uses (default on the embedded lab).",
    ),
    "quick": click.option("--quick", is_flag=True, hidden=True, expose_value=False, callback=_no_quick),
    "resume": _option("--resume", "DIR", "Continue the run in this folder, with the same settings.", type=PATH),
    "hardware": _option(
        "--hardware", "NAME", "Parameters of the model: paper (default), paper-clients, this-machine or a file."
    ),
    "master": _option(
        "--master", "URL", "Where Spark runs the cells of a model: local[*] (default), local[N], spark://host:7077 ..."
    ),
    "settings": click.option(
        "--settings",
        "settings_file",
        metavar="FILE",
        type=PATH,
        help="TOML file of settings, named like the options, which override it, as HARNESS_... variables do.",
    ),
}


def settings_options(*names: str) -> Callable[[Function], Function]:
    """Options whose values go to `settings.create` as they are."""

    def decorate(function: Function) -> Function:
        for name in reversed(names):
            function = _SETTINGS[name](function)
        return function

    return decorate


class Percent(click.ParamType[float]):
    """A percentage such as `5%`, as a part: 0.05."""

    name = "percentage"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return settings_module.parse_percent(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def on_console(*, ask: bool = True, stderr: bool = False) -> AbstractContextManager[Reporter]:
    """As `reporting.on_console`, which only a command that shows progress imports."""
    from harness.output import reporting

    return reporting.on_console(ask=ask, stderr=stderr)


def console() -> SafeConsole:
    """Standard output, wide enough for a table of sentences also where it is no terminal."""
    from harness.output.reporting import SafeConsole

    safe_console = SafeConsole()
    if not safe_console.is_terminal:
        safe_console.width = max(safe_console.width, 140)
    return safe_console


def print_rows(rows: Sequence[Sequence[str]]) -> None:
    """Print a table, the first row of which has the column names and the last column the states."""
    from harness.output.tables import print_table

    print_table(console(), rows)


class NewFile(click.Path):
    """A file to write at the end: a run of hours must not end at a folder that is not there."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if not os.access(path.parent, os.W_OK):
            self.fail(f"{path.parent} is no folder that can be written", param, ctx)
        return path


def json_option(what: str) -> Callable[[Function], Function]:
    """The option `--json FILE` of a command."""
    words = f"Write {what} as JSON (fields in results/README.md)."
    return click.option("--json", "json_file", type=NewFile(), metavar="FILE", help=words)


class MetricsPort(click.ParamType[int]):
    """`127.0.0.1:9464` or `9464`, as a port of this machine that is free."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        host, _, port = str(value).rpartition(":")
        if host not in {"", "127.0.0.1", "localhost"} or not port.isdecimal():
            reach = "a Prometheus elsewhere reaches it with ssh -L or a proxy"
            self.fail(f"{value!r}: write 127.0.0.1:9464; it listens on this machine alone, and {reach}", param, ctx)
        require_free_port(int(port), "--metrics")
        return int(port)


def metrics_option(what: str) -> Callable[[Function], Function]:
    """The option `--metrics ADDRESS` of a command."""
    words = f"Serve {what} for Prometheus there, such as 127.0.0.1:9464 (harness/README.md)."
    return click.option("--metrics", type=MetricsPort(), metavar="ADDRESS", help=words)


def require_free_port(port: int, option: str) -> None:
    """Raise Failure where a port of this machine cannot be used."""
    import socket

    if not 1 <= port <= 65535:  # 0 would be any free port, which the address does not name
        raise Failure(f"invalid {option} {port}: choose 1 to 65535", USAGE)
    deadline = time.monotonic() + FREED_WITHIN_S
    while True:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                return probe.bind(("127.0.0.1", port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    text = f"port {port} on 127.0.0.1 cannot be used ({error.strerror}): choose another with {option}"
                    raise Failure(text, PREFLIGHT) from None
        time.sleep(0.1)


def require_all_completed(run: harness.Run, units: str = "cells") -> None:
    """Raise Failure where some have failed."""
    outcome = run.outcome
    if outcome.failed:
        reasons = f"reasons in {run.folder}/journal.jsonl"
        raise Failure(f"{outcome.failed} of {outcome.total} {units} failed; {reasons}", CELLS_FAILED)
