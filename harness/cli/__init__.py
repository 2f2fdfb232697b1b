"""The command line: one command a task. A command imports its part only when it runs; errors are one line.

- `sweeps`: matrix, run, ui, plan, techniques, rates
- `simulation`: simulate, calibrate
- `workloads`: workload new, workload check
- `labs`: lab, doctor, serve
- `results`: reduce, figures, claims, compare
- `conventions`: what they share
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from harness.cli import labs, results, simulation, sweeps, workloads
from harness.cli.conventions import EXIT_CODES, INTERRUPTED, OK, USAGE, Failure
from harness.failures import nearest


class Commands(click.Group):
    """Names the nearest command for an unknown one, and lists commands in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in self.commands:
            raise Failure(f"unknown command {args[0]!r}{nearest(args[0], list(self.commands))}", USAGE)
        return super().resolve_command(ctx, args)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=EXIT_CODES
)
@click.version_option(package_name="service-broker-harness", prog_name="harness")
def harness() -> None:
    """Measures how many Service Broker messages a second client threads send through one or more
    initiators to a target, over the 528 cells of "Service Broker: Performance and Scalability
    Techniques" (Microsoft, 2009), and shows the gain of using only every 150th dialog.

    Begin with `harness matrix --matrix quick`.
    """


for command in (
    sweeps.matrix,
    sweeps.run,
    sweeps.ui,
    sweeps.plan,
    simulation.simulate,
    simulation.calibrate,
    sweeps.techniques,
    sweeps.rates,
    workloads.workload,
    labs.lab,
    labs.doctor,
    labs.serve,
    results.reduce,
    results.figures,
    results.claims,
    results.compare,
):
    harness.add_command(command)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command `harness`."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = harness.main(arguments, prog_name="harness", standalone_mode=False)
    except Failure as failure:
        click.echo(f"harness: {failure.message}", err=True)
        sys.exit(failure.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(USAGE)
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
