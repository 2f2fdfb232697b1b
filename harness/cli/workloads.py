"""Commands on workloads: check one, begin one of one's own."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

import shlex
import shutil
import tempfile
from pathlib import Path

import click

import harness
from harness.cli.outcomes import CELLS_FAILED, PATH, USAGE, Failure
from harness.definitions.lab_kinds import EMBEDDED
from harness.failures import StatementRefused
from harness.files import workload_file
from harness.output.terminal import say

_TEMPLATE = "fan-in"
_GUIDE = "README.md"  # that of a workload of the package is about that workload


@click.group(short_help="Your own messages and procedures: check them, begin them.")
def workload() -> None:
    """What clients send, and what the target does with it: a workload.toml beside its SQL files.

    \b
    Examples:
      harness workload new orders               writes orders/ with a workload that runs
      harness workload check orders             runs messages through it on the embedded lab
      harness matrix --workload orders --threads 1,10,50 --lab-file lab.toml
    """


@workload.command(short_help="Write a workload that runs into a new folder.")
@click.argument("folder", type=PATH)
def new(folder: Path) -> None:
    """Write a workload that runs into a new folder: change its procedures into yours.

    \b
    Example:
      harness workload new orders
    """
    try:
        shutil.copytree(workload_file.FOLDER / _TEMPLATE, folder, ignore=shutil.ignore_patterns(_GUIDE))
    except FileExistsError:
        raise Failure(f"{folder} exists: name another folder", USAGE) from None
    for path in sorted(folder.iterdir()):
        say(f"wrote {path}")
    say(f"what its procedures must do, and every key: {workload_file.FOLDER / _GUIDE}")
    say(f"next: harness workload check {shlex.quote(str(folder))}")


@workload.command(short_help="List what a workload creates, and run messages through it.")
@click.argument("name")
def check(name: str) -> None:
    """Read a workload, list what its scripts create, and run messages through it on the embedded lab.

    NAME is that of a workload of the package or the folder of a workload.toml.

    \b
    Examples:
      harness workload check orders
      harness workload check request-reply
    """
    from harness.lab import scripts
    from harness.output import reporting

    checked = workload_file.read(name)
    say(f"workload {checked}: {checked.about}")
    if bodies := checked.bodies:
        say(f"bodies: {checked.body}{f', {bodies.mean_bytes:,} on average' if bodies.mean_bytes else ''}")
    say(f"clients call {checked.client}")
    of_sides = {"both": checked.both_scripts, "initiators": checked.initiator_scripts, "target": checked.target_scripts}
    for side, paths in of_sides.items():
        for path in paths:
            say(f"{side}: {Path(path).name} creates {', '.join(scripts.created(path)) or 'nothing'}")
    with tempfile.TemporaryDirectory(prefix="harness-workload-") as results:
        try:
            outcome = harness.run_cell(
                threads=2,
                dialog_ratio=1,
                lab=EMBEDDED.name,
                workload=name,
                measure="200ms",
                settle="500ms",
                results=results,
                reduce=False,
                progress=reporting.Notes(),
            ).outcome
        except StatementRefused as error:  # the embedded lab lacks no rights
            raise harness.UsageFailure(str(error)) from None
    if outcome.measured is None:
        raise Failure(outcome.reason, CELLS_FAILED)
    say(outcome.measured.accounted)
    if outcome.measured.leak:
        raise Failure(f"the workload leaks: {outcome.measured.leak}", CELLS_FAILED)
    say(f"the workload runs. Next: harness run --workload {shlex.quote(name)}")
