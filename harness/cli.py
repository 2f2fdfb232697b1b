"""The command line: one verb a task. A verb imports its part only when it is used; errors are one line."""

# ruff: noqa: PLC0415  the verbs import their parts themselves

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click

from harness import settings as settings_module
from harness.failures import MachineFailure, UsageFailure
from harness.settings import Settings, nearest

OK, CELLS_FAILED, USAGE, PREFLIGHT, INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES = """\b
Exit codes:
  0    all is well
  1    cells failed, or their books did not balance
  2    a wrong option, name, setting or file; nothing was started
  3    this machine lacks something: an ODBC driver, Java, a free port,
       disk space, a folder that can be written
  130  interrupted (Ctrl-C); what was measured is kept
"""


class Failure(click.ClickException):
    """Ends the program with one line and a code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class


class Verbs(click.Group):
    """Names the nearest verb for an unknown one, and lists the verbs in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise Failure(f"there is no verb {args[0]!r}{nearest(args[0], list(self.commands))}", USAGE)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=EXIT_CODES
)
@click.version_option(package_name="service-broker-harness", prog_name="harness")
def harness() -> None:
    """Measures how many Service Broker messages a second go from client threads through one to three
    initiators into a target, over the 528 cells of "Service Broker: Performance and Scalability
    Techniques" (Microsoft, 2009), and shows what using every 150th dialog gains.

    Begin with `harness matrix --quick`.
    """


Function = Callable[..., Any]


def _options(*names: str) -> Callable[[Function], Function]:
    """Options that belong to settings; their values go to `settings.create` as they are."""
    known: dict[str, Callable[[Function], Function]] = {
        "lab": click.option(
            "--lab", metavar="NAME", help=f"Where the instances run: {', '.join(settings_module.LABS)}."
        ),
        "driver": click.option("--driver", metavar="NAME", help="ODBC driver: auto (default), microsoft or freetds."),
        "measure": click.option(
            "--measure", metavar="TIME", help="Length of a cell's measured window: 500ms, 1s (default), 2m."
        ),
        "settle": click.option(
            "--settle", metavar="TIME", help="Longest wait for a steady rate before it (default 600ms)."
        ),
        "drain": click.option(
            "--drain", metavar="TIME", help="Longest wait until all messages are processed (default 1m)."
        ),
        "seed": click.option("--seed", metavar="NUMBER", help="Decides the order of the cells (default 1)."),
        "results": click.option(
            "--results",
            metavar="DIR",
            type=click.Path(path_type=Path),
            help="Folder that receives the run's folder (default results).",
        ),
        "cells": click.option(
            "--cells",
            metavar="PATTERN",
            multiple=True,
            help="Shell pattern on cell ids such as i1-t5-r150-p100-v2008 (i1-t5 means i1-t5-*); "
            "repeat it, or separate several by spaces.",
        ),
        "quick": click.option(
            "--quick", is_flag=True, default=None, help="24 cells that span all axes instead of all 528."
        ),
        "settings": click.option(
            "--settings",
            "settings_file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="TOML file of settings, named as the options; the command line and HARNESS_... variables win over it.",
        ),
    }

    def decorate(function: Function) -> Function:
        for name in reversed(names):
            function = known[name](function)
        return function

    return decorate


def _settings(options: dict[str, Any], settings_file: Path | None = None) -> Settings:
    return settings_module.create(options, file=settings_file)


@harness.command(epilog=EXIT_CODES)
@_options("lab", "cells", "quick", "measure", "settle", "drain", "seed", "results", "driver", "settings")
@click.option(
    "--resume",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Continue the sweep in this result folder; its settings must be the same.",
)
@click.option("--only-sweep", is_flag=True, help="Do not reduce and draw afterwards.")
def matrix(resume: Path | None, only_sweep: bool, settings_file: Path | None, **options: Any) -> None:
    """Sweep the cells of the matrix, then reduce and draw.

    A cell is one combination of initiators (1, 2, 3), client threads per initiator (1 to 50), dialog ratio (1, or 150:
    only every 150th dialog is used), payload (100 to 8192 bytes) and server version. The results of a run lie in a
    folder of their own; the last lines printed name it and its figures.

    \b
    Examples:
      harness matrix                                    all 528 cells, about 20 minutes
      harness matrix --quick                            24 cells in under three minutes
      harness matrix --cells 'i1-*-p100-*' --measure 5s
      harness matrix --resume results/20260101-120000-embedded
    """
    from harness.sweep import run as sweep_run

    with _one_line_errors():
        if not only_sweep:
            from harness.reductions.session import require_java

            require_java()  # before the sweep, not half an hour later
        outcome = sweep_run.sweep(
            options, settings_file=settings_file, resume=resume, announce=_say, console_is_terminal=sys.stdout.isatty()
        )
        if not only_sweep and outcome.completed:
            _reduce_and_draw(outcome.results)
        _say(f"results: {outcome.results}")
    if outcome.failed:
        raise Failure(
            f"{outcome.failed} of {outcome.total} cells failed; reasons in {outcome.results}/journal.jsonl",
            CELLS_FAILED,
        )


def _reduce_and_draw(results: Path) -> None:
    from harness import figures, reductions

    reductions.reduce(results, progress=_say)
    for path in figures.draw(results):
        if path.suffix == ".png":
            _say(f"figure: {path}")


@harness.command(epilog=EXIT_CODES)
@click.argument("cell", required=False)
@_options("lab", "measure", "settle", "drain", "results", "driver", "settings")
@click.option("--initiators", metavar="N", help="1, 2 or 3 (default 1).")
@click.option("--threads", metavar="N", help="Client threads per initiator (default 10).")
@click.option("--dialog-ratio", metavar="N", help="1, or 150: use every 150th dialog (default 150).")
@click.option("--payload", "payload_bytes", metavar="BYTES", help="Bytes a message (default 100).")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default 2008).")
def run(cell: str | None, settings_file: Path | None, **options: Any) -> None:
    """Run one cell and print its numbers.

    \b
    Examples:
      harness run
      harness run i3-t50-r1-p8192-v2008 --measure 10s
      harness run --threads 50 --payload 4096
    """
    from harness.sweep import run as sweep_run

    axes = {
        name: options.pop(name) for name in ("initiators", "threads", "dialog_ratio", "payload_bytes", "server_version")
    }
    with _one_line_errors():
        outcome = sweep_run.single(cell, axes, options, settings_file=settings_file, announce=_say)
        for line in outcome.lines:
            _say(line)
        _say(f"results: {outcome.results}")
    if outcome.failed:
        raise Failure(outcome.reason, CELLS_FAILED)


@harness.command(epilog=EXIT_CODES, short_help="Load by hand: Locust's web UI with a lab behind it.")
@_options("lab", "driver", "settings")
@click.option("--port", default=8089, show_default=True, help="Port of the web page on 127.0.0.1.")
@click.option("--server-version", default="2008", show_default=True, metavar="VERSION", help="Version of SQL Server.")
def ui(port: int, server_version: str, settings_file: Path | None, **options: Any) -> None:
    """Start Locust's web UI with a lab behind it: load by hand, charts that move.

    Open http://127.0.0.1:8089, choose initiators, threads, dialog ratio and payload, press Start. Ctrl-C here ends all.
    """
    with _one_line_errors():
        chosen = _settings(options, settings_file)
        _announce_lab(chosen, options)
        _check_port(port)
        from harness.load import ui as load_ui

        load_ui.main(port=port, lab=chosen.lab, version=server_version, driver=chosen.driver)


@harness.command(epilog=EXIT_CODES, short_help="Start linked instances and say how to connect.")
@_options("lab", "driver", "settings")
@click.option("--initiators", default="1", show_default=True, metavar="N", help="How many initiators.")
@click.option("--server-version", default="2008", show_default=True, metavar="VERSION", help="Version of SQL Server.")
def lab(initiators: str, server_version: str, settings_file: Path | None, **options: Any) -> None:
    """Start a target and initiators, linked, and say how to connect; Ctrl-C ends them.

    \b
    Examples:
      harness lab
      harness lab --initiators 3
    """
    with _one_line_errors():
        chosen = _settings(options, settings_file)
        from harness.sweep import run as sweep_run

        axes = sweep_run.axes({"initiators": initiators, "server_version": server_version})
        _announce_lab(chosen, options)
        from harness import lab as lab_package
        from harness.lab import handbill, interruption

        with (
            interruption.noted() as watch,
            lab_package.open(
                chosen.lab,
                version=axes.server_version,
                initiators=axes.initiators,
                driver=chosen.driver,
                watch=watch,
            ) as opened,
        ):
            for line in handbill.lines(opened):
                _say(line)
            _say("Ctrl-C ends the lab.")
            while True:
                opened.check()
                signal.sigtimedwait((), 1.0)


@harness.command(epilog=EXIT_CODES, short_help="Run one instance of the embedded Service Broker.")
@click.option("--name", default="embedded", show_default=True, help="Name of the instance.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=1433, show_default=True, help="Port; 0 takes a free one.")
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("data"),
    show_default=True,
    metavar="DIR",
    help="Folder for its data.",
)
@click.option("--version", "server_version", default="2008", show_default=True, help="Version of SQL Server it plays.")
@click.option("--with-parent", is_flag=True, help="End when standard input ends.")
def serve(**options: Any) -> None:
    """Run one instance of the embedded Service Broker: a small server that SQL Server's drivers can talk to.

    The password of the login sa comes from the environment: HARNESS_SA_PASSWORD. When the server is ready it prints one
    line of JSON with its address.

    \b
    Example:
      HARNESS_SA_PASSWORD=secret harness serve --port 1433 --data /tmp/broker
    """
    with _one_line_errors():
        from harness.embedded.server import serve as server

        sys.exit(server.main(**options) or OK)


def _existing_results(folder: Path) -> Path:
    if (folder / "manifest.json").is_file():
        return folder
    others = (
        sorted(path.parent.name for path in folder.parent.glob("*/manifest.json")) if folder.parent.is_dir() else []
    )
    hint = nearest(folder.name, others[-5:]) if others else ""
    what = "has no manifest.json" if folder.is_dir() else "does not exist"
    raise Failure(f"{folder} is no result folder: it {what}{hint}", USAGE)


@harness.command(epilog=EXIT_CODES, short_help="Reduce raw records to tables, with PySpark.")
@click.argument("results", type=click.Path(path_type=Path))
def reduce(results: Path) -> None:
    """Reduce the raw records of a run to tables (Parquet and CSV), with PySpark.

    \b
    Example:
      harness reduce results/20260101-120000-embedded
    """
    with _one_line_errors():
        from harness import reductions

        for path in reductions.reduce(_existing_results(results), progress=_say):
            _say(f"table: {path}")


@harness.command(name="figures", epilog=EXIT_CODES, short_help="Draw the figures of a run.")
@click.argument("results", type=click.Path(path_type=Path))
def figures_verb(results: Path) -> None:
    """Draw the figures of a run from its reduced tables (PNG and SVG).

    \b
    Example:
      harness figures results/20260101-120000-embedded
    """
    with _one_line_errors():
        from harness import figures

        for path in figures.draw(_existing_results(results)):
            _say(f"figure: {path}")


@harness.command(epilog=EXIT_CODES, short_help="Compare two runs: figures and ratios per cell.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--output", type=click.Path(path_type=Path), metavar="DIR", help="Folder for figures and tables.")
def compare(a: Path, b: Path, output: Path | None) -> None:
    """Compare two runs: figures side by side and a table of ratios per cell.

    \b
    Example:
      harness compare results/20260101-120000-embedded results/20260102-120000-embedded
    """
    with _one_line_errors():
        from harness import figures

        for path in figures.compare(_existing_results(a), _existing_results(b), output):
            _say(f"written: {path}")


@harness.command(epilog=EXIT_CODES, short_help="Say what a sweep would do, and how long it takes.")
@_options("lab", "cells", "quick", "measure", "settle", "drain", "seed", "settings")
@click.option("--list", "list_cells", is_flag=True, help="Print the ids of the cells in the order in which they run.")
def plan(list_cells: bool, settings_file: Path | None, **options: Any) -> None:
    """Say what a sweep would do: cells, groups, dialogs to build, how long it takes. Starts nothing.

    \b
    Examples:
      harness plan
      harness plan --cells 'i3-*' --list
    """
    from harness.sweep import planning

    with _one_line_errors():
        for line in planning.lines(_settings(options, settings_file), list_cells=list_cells):
            _say(line)


def _announce_lab(chosen: Settings, options: dict[str, Any]) -> None:
    from harness.lab.handbill import first_line

    _say(first_line(chosen.lab, given=options.get("lab") is not None))


def _check_port(port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OverflowError:
            raise Failure(f"--port {port} is no port; valid: 1 to 65535", USAGE) from None
        except OSError as error:
            raise Failure(
                f"port {port} on 127.0.0.1 cannot be used ({error.strerror}): choose another with --port", PREFLIGHT
            ) from None


def _say(text: str) -> None:
    click.echo(text)


_CURES = {
    errno.ENOSPC: "the disk is full: make room, then go on with --resume",
    errno.EDQUOT: "the disk quota is used up: make room, then go on with --resume",
    errno.EROFS: "the file system is read-only: choose another folder with --results",
    errno.EACCES: "no permission: choose another folder with --results, or mend its permissions",
    errno.ENOTDIR: "a part of the path is no folder: choose another with --results",
    errno.EADDRINUSE: "the port is in use: choose another",
}


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turns the exceptions that users cause, or can cure, into one line and an exit code."""
    try:
        yield
    except UsageFailure as error:
        raise Failure(str(error), USAGE) from None
    except MachineFailure as error:
        raise Failure(str(error), PREFLIGHT) from None
    except FileNotFoundError as error:
        raise Failure(f"{error.filename or error}: there is no such file", USAGE) from None
    except OSError as error:
        cure = _CURES.get(error.errno or 0)
        if cure is None:
            raise
        raise Failure(f"{error.filename}: {cure}" if error.filename else cure, PREFLIGHT) from None


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command `harness`."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = harness.main(arguments, prog_name="harness", standalone_mode=False)
    except Failure as failure:
        click.echo(f"harness: {failure.message}", err=True)
        sys.exit(failure.exit_code)
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        click.echo(f"harness: {message[:1].lower()}{message[1:]}", err=True)
        sys.exit(USAGE)
    except (KeyboardInterrupt, click.Abort):
        click.echo("harness: interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)
    sys.exit(code if isinstance(code, int) else OK)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
