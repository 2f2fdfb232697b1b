"""Lines for the terminal. Whatever a command prints goes through here, or through `reporting.SafeConsole`."""

import traceback
from types import TracebackType

import click

from harness.output.safe_text import visible


def say(line: str) -> None:
    click.echo(visible(line))


def to_standard_error(line: str) -> None:
    click.echo(visible(line), err=True)


def show_traceback(kind: type[BaseException], error: BaseException, place: TracebackType | None) -> None:
    """Be `sys.excepthook`: an error that is a bug may have a server's text."""
    for line in "".join(traceback.format_exception(kind, error, place)).splitlines():
        to_standard_error(line)
