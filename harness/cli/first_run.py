"""The first run on a lab, step by step: `harness doctor --first-run`.

Every step says what it expects, then what it saw. The walk ends at the first step that differs. Section 5 of
sql/server/README.md shows what each step prints, and what to look at where it differs.
"""

# ruff: noqa: PLC0415  a step imports its parts only when it runs

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import harness
from harness.cli.conventions import on_console
from harness.cli.outcomes import CELLS_FAILED, Failure
from harness.files.records import WITH_THROUGHPUT
from harness.output.terminal import say

if TYPE_CHECKING:
    from harness.files.workload_file import Workload
    from harness.lab.drivers import Kind

STEPS = 5
SECTION = "section 5 of sql/server/README.md"
THREADS, PAYLOAD_BYTES, RATIOS = 5, 100, (1, 150)
# Without these nobody knows why a rate is what it is. Of the others the walk says who shows them.
NEEDED = ("waits", "processors", "samples")
SHOWN_TO = {
    "latches": "VIEW SERVER STATE",
    "file_io": "VIEW SERVER STATE",
    "latch_waits": "VIEW SERVER STATE",
    "dialog_pages": "the dedicated administrator connection, which only sysadmin may use",
}


def walk(
    *, initiators: str, server_version: str | None, settings_file: Path | None, ask: bool, options: dict[str, Any]
) -> None:
    """Walk all steps; raises a failure of the first one that differs."""
    from harness.lab import opening

    lab = {"settings_file": settings_file, **options}
    selected = opening.select_lab(options, settings_file=settings_file)
    version = server_version or selected.topology.sweep_versions[-1]
    with _step(1, "an ODBC driver for SQL Server is installed"):
        _driver(selected.settings.driver)
    with _step(2, "the lab opens, and the doctor finds no error"):
        examine(ask=ask, initiators=initiators, server_version=version, **lab)
    with _step(3, f"two cells of {THREADS} threads run, and every message is accounted for"):
        run = _measure(initiators, version, payload(selected.settings.workload), lab)
    with _step(4, "the instances show what explains a rate"):
        _evidence(run)
    with _step(5, "tables, figures and the report are made"):
        with on_console() as reporter:
            *_, report = run.draw(progress=reporter)
        say(f"the report is {report}")
    say(closing({cell["cell_id"]: cell["state"] for cell in run.cells().to_dict("records")}))


def closing(states: Mapping[str, str]) -> str:
    """What follows when no step differs, by the states of the cells."""
    uncounted = [f"{cell} is {state}" for cell, state in states.items() if state not in WITH_THROUGHPUT]
    if not uncounted:
        return "No step differs: measure with harness matrix."
    return f"No step differs, but {', '.join(uncounted)}: such a cell does not count. Step 3 says why."


@contextlib.contextmanager
def _step(number: int, expects: str) -> Iterator[None]:
    say(f"step {number} of {STEPS}: {expects}")
    try:
        yield
    except (harness.UsageFailure, harness.MachineFailure, Failure):
        say(f"step {number} differs: see {SECTION}")
        raise


def _driver(kind: Kind | Literal["auto"]) -> None:
    from harness.lab import drivers

    drivers.check_manager()
    driver = drivers.choose(kind)
    say(f"the driver is {driver.name} ({driver.origin})")


def examine(*, ask: bool, json_file: Path | None = None, **options: Any) -> None:
    """Print what the doctor finds; raises UnfitLab if a finding is an error.

    With `ask` the user is asked before anything is created on own servers; a no raises Declined."""
    from harness.doctor import document, raise_errors

    with on_console(ask=ask) as reporter:
        findings = harness.examine_lab(progress=reporter, **options)
    for finding in findings:
        say(str(finding))
    if json_file:
        document.of_findings(findings).write_json(json_file)
    raise_errors(findings)


def payload(workload: Workload) -> int | None:
    """The payload of the two cells, or the least that a template needs; None where messages have sizes of their own."""
    bodies = workload.bodies
    if bodies is None:
        return PAYLOAD_BYTES
    return None if bodies.sizes else max(PAYLOAD_BYTES, bodies.least_bytes)


def _measure(initiators: str, version: str, payload_bytes: int | None, lab: dict[str, Any]) -> harness.Run:
    from harness.output import reporting

    run = harness.run_matrix(
        initiators=initiators,
        threads=THREADS,
        payloads=payload_bytes,
        ratios=RATIOS,
        server_versions=version,
        progress=reporting.Notes(),
        **lab,
    )
    if run.outcome.failed:
        raise Failure(run.outcome.reason, CELLS_FAILED)
    for cell in run.cells().to_dict("records"):
        reason = f", {cell['state_reason']}" if cell["state_reason"] else ""
        say(f"{cell['cell_id']}: {cell['processed_per_s']:,.0f} messages/s processed, {cell['state']}{reason}")
    return run


def _evidence(run: harness.Run) -> None:
    shown = {kind: len(run.table(f"raw/{kind}")) for kind in (*NEEDED, *SHOWN_TO)}
    say(f"records: {', '.join(f'{rows:,} {kind}' for kind, rows in shown.items())}")
    missing = [kind for kind in NEEDED if not shown[kind]]
    if missing:
        raise harness.MachineFailure(f"no instance shows {', '.join(missing)}: GRANT VIEW SERVER STATE TO the login")
    for kind, right in SHOWN_TO.items():
        if not shown[kind]:
            say(f"no {kind}: nothing happened that they record, or no instance shows them without {right}")
