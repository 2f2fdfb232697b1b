"""The command line: one verb a task. A verb imports its part only when it is used; errors are one line.

- `sweeps`: matrix, run, ui, plan
- `simulation`: simulate
- `calibration`: calibrate
- `techniques`: techniques
- `labs`: lab, doctor, serve
- `results`: reduce, figures, claims, compare
- `common`: the options and errors that they share
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from harness.cli import calibration, labs, results, simulation, sweeps, techniques
from harness.cli.common import EXIT_CODES, INTERRUPTED, OK, USAGE, Failure
from harness.failures import nearest


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


for verb in (
    sweeps.matrix,
    sweeps.run,
    sweeps.ui,
    sweeps.plan,
    simulation.simulate,
    calibration.calibrate,
    techniques.techniques,
    labs.lab,
    labs.doctor,
    labs.serve,
    results.reduce,
    results.figures,
    results.claims,
    results.compare,
):
    harness.add_command(verb)


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
