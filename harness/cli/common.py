"""What the verbs share: options that belong to settings, exit codes, errors as one line."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from harness import settings as settings_module
from harness.failures import MachineFailure, UsageFailure

OK, CELLS_FAILED, USAGE, PREFLIGHT, INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES = """\b
Exit codes:
  0    all is well
  1    cells, runs or fault seeds failed, or books did not balance
  2    a wrong option, name, setting or file; nothing was started
  3    a machine or server lacks something: an ODBC driver, Java, a right,
       a free port, disk space, a folder that can be written
  130  interrupted (Ctrl-C); what was measured is kept
"""


class Failure(click.ClickException):
    """Ends the program with one line and a code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class


Function = Callable[..., Any]
LAB_OPTIONS = ("lab", "lab_file", "dialog_security", "endpoint_encryption", "driver")


def settings_options(*names: str) -> Callable[[Function], Function]:
    """Options that belong to settings; their values go to `settings.create` as they are."""
    known: dict[str, Callable[[Function], Function]] = {
        "lab": click.option(
            "--lab",
            metavar="NAME",
            help=f"Where the instances run: {' or '.join(settings_module.LABS)}. Default: sqlserver where a Docker "
            "engine answers or --lab-file names servers, else embedded.",
        ),
        "lab_file": click.option(
            "--lab-file",
            metavar="FILE",
            type=click.Path(path_type=Path),
            help="lab.toml, which names your own servers of SQL Server.",
        ),
        "server_versions": click.option(
            "--server-versions",
            metavar="LIST",
            help="Versions of SQL Server to sweep, separated by spaces (containers: default '2022 2025').",
        ),
        "dialog_security": click.option(
            "--dialog-security/--no-dialog-security",
            default=None,
            help="Dialogs encrypted and signed by certificates (default, as in the paper), or neither.",
        ),
        "endpoint_encryption": click.option(
            "--endpoint-encryption/--no-endpoint-encryption",
            default=None,
            help="Encrypt connections between instances too (default not, as in the paper).",
        ),
        "driver": click.option("--driver", metavar="NAME", help="ODBC driver: auto (default), microsoft or freetds."),
        "measure": click.option(
            "--measure",
            metavar="TIME",
            help="Length of a cell's measured window: 500ms, 2m ... (default 30s, embedded 1s).",
        ),
        "settle": click.option(
            "--settle", metavar="TIME", help="Longest wait for a steady rate before it (default 10s, embedded 600ms)."
        ),
        "drain": click.option(
            "--drain", metavar="TIME", help="Longest wait until all messages are processed (default 2m, embedded 1m)."
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
            help="Shell pattern on cell ids such as i1-t5-r150-p100-v2022 (i1-t5 means i1-t5-*); "
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


def say(text: str) -> None:
    click.echo(text)


_CURES = {
    errno.ENOSPC: "the disk is full: make room, then go on (a run of cells with --resume)",
    errno.EDQUOT: "the disk quota is used up: make room, then go on (a run of cells with --resume)",
    errno.EROFS: "the file system is read-only: choose another folder with --results",
    errno.EACCES: "no permission: choose another folder with --results, or mend its permissions",
    errno.ENOTDIR: "a part of the path is no folder: choose another with --results",
    errno.EISDIR: "it is a folder: name a file",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.EADDRINUSE: "the port is in use: choose another",
}


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turns the exceptions that users cause, or can cure, into one line and an exit code."""
    try:
        yield
    except UsageFailure as error:
        raise Failure(str(error), USAGE) from None
    except MachineFailure as error:
        raise Failure(str(error), PREFLIGHT) from None
    except FileNotFoundError as error:
        raise Failure(f"{error.filename or error}: there is no such file", USAGE) from None
    except BrokenPipeError:  # who read the output has gone: `main` ends quietly
        raise
    except OSError as error:
        # Of what has no cure here, the system's own words.
        told = _CURES.get(error.errno or 0) or error.strerror or str(error)
        raise Failure(f"{error.filename}: {told}" if error.filename else told, PREFLIGHT) from None
