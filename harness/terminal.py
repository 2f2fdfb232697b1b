"""Lines for the terminal. Whatever a command prints goes through here, or through `reporting.SafeConsole`."""

from __future__ import annotations

import click

from harness.safe_text import visible


def say(line: str) -> None:
    click.echo(visible(line))


def to_standard_error(line: str) -> None:
    click.echo(visible(line), err=True)
