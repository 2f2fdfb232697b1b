"""The command line: one command a task. Its module is imported when it is called, its part when it runs; errors are one
line.

- `sweeps`: matrix, run, soak, ui, plan, techniques, rates, aa
- `simulation`: simulate, calibrate
- `workloads`: workload new, workload check
- `labs`: lab, doctor
- `monitors`: monitors
- `serving`: serve, worker, activator
- `results`: reduce, figures, report, queue-course, claims, compare, support-bundle
- `conventions`: what they share; `outcomes`: how they end
"""

import gc
import importlib
import io
import os
import re
import signal
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn

import click

from harness.cli.outcomes import EXIT_CODES, INTERRUPTED, OK, PREFLIGHT, USAGE, Failure, one_line_errors
from harness.failures import Declined, nearest
from harness.machine.linux import is_linux, require_linux
from harness.output.terminal import say, show_traceback, to_standard_error

# The module of each command, in the order of use.
_MODULES = {
    **dict.fromkeys(("matrix", "run", "ui", "plan"), "sweeps"),
    **dict.fromkeys(("simulate", "calibrate"), "simulation"),
    **dict.fromkeys(("techniques", "rates", "aa", "soak"), "sweeps"),
    "workload": "workloads",
    **dict.fromkeys(("lab", "doctor"), "labs"),
    "monitors": "monitors",
    **dict.fromkeys(("serve", "worker", "activator"), "serving"),
    **dict.fromkeys(("reduce", "figures", "report", "queue-course", "claims", "compare", "support-bundle"), "results"),
}


# Those that start processes, or are one.
_OF_LINUX = {name for name, module in _MODULES.items() if module in ("sweeps", "simulation", "serving")} - {"plan"}


class Commands(click.Group):
    """Imports the module of a command, adds the exit codes to its help, makes its errors one line, names the nearest
    command for an unknown one, and lists them in the order of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(f"harness.cli.{_MODULES[cmd_name]}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        for documented in (command, *getattr(command, "commands", {}).values()):
            documented.epilog = EXIT_CODES
        if cmd_name in _OF_LINUX and not is_linux():
            command.callback = require_linux
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _MODULES:
            raise Failure(f"unknown command {args[0]!r}{nearest(args[0], list(_MODULES))}", USAGE)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        with one_line_errors():
            return super().invoke(ctx)


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=EXIT_CODES
)
@click.version_option(package_name="service-broker-harness", prog_name="harness")
def harness() -> None:
    """Measure how many Service Broker messages a second client threads send through one or more
    initiators to a target, over the 528 cells of "Service Broker: Performance and Scalability
    Techniques" (Microsoft, 2009), and show the gain of using only every 150th dialog.

    Begin with `harness matrix --matrix quick`.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command `harness`."""
    signal.signal(signal.SIGTERM, _interrupt)
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # nohup ignores it
        signal.signal(signal.SIGHUP, partial(_lose_terminal, [number for number in range(3) if os.isatty(number)]))
    # A command first imports: many objects, hardly garbage. By default 700 of them start a collection.
    gc.set_threshold(50_000)
    # pydantic looks for plugins in every installed package; there are none for the harness or its processes.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.excepthook = show_traceback
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal of few letters shows the others as ?
    try:
        code = harness.main(arguments, prog_name="harness", standalone_mode=False)
    except Declined as declined:
        say(str(declined))
        sys.exit(OK)
    except Failure as failure:
        to_standard_error(f"harness: {failure.message}")
        sys.exit(failure.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(USAGE)
    except click.ClickException as error:
        message = " ".join(error.format_message().split())
        to_standard_error(f"harness: {message[:1].lower()}{message[1:]}")
        sys.exit(USAGE)
    except ModuleNotFoundError as error:
        if error.name not in _packages_of_load():
            raise
        to_standard_error(f"harness: this needs the package {error.name}: pip install 'service-broker-harness[load]'")
        sys.exit(PREFLIGHT)
    except (KeyboardInterrupt, click.Abort) as interrupt:
        how_to_go_on = (interrupt.__cause__ or interrupt).args  # click raises its Abort from the KeyboardInterrupt
        to_standard_error("; ".join(["harness: interrupted", *map(str, how_to_go_on)]))
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)
    sys.exit(code if isinstance(code, int) else OK)


def _packages_of_load() -> set[str]:
    """Return the packages of the extra `load`, which an environment for the embedded broker alone lacks."""
    from importlib import metadata  # noqa: PLC0415

    required = metadata.requires("service-broker-harness") or ()
    of_load = (text for text in required if re.search("extra == .load.", text))
    return {re.split(r"[^\w-]", text)[0].replace("-", "_") for text in of_load}


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def _lose_terminal(descriptors: Sequence[int], *_: object) -> None:
    """Its window was closed, or the connection to it: end as by SIGTERM. What is said on the way cannot be written."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the kernel sends another one when the shell has ended
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    signal.raise_signal(signal.SIGTERM)
