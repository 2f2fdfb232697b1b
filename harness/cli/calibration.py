"""The command that fits the model's free parameters, or shows what each parameter does to the results."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import csv as csv_module
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.console_table import print_rows
from harness.cli.exits import EXIT_CODES, PREFLIGHT, USAGE, Failure, one_line_errors, say

if TYPE_CHECKING:
    from harness.simulation.bench import Bench
    from harness.simulation.calibration import Measure, ReferenceNumbers
    from harness.simulation.parameters import Parameters


@click.command(epilog=EXIT_CODES, short_help="Fit the model's free parameters to the paper's numbers.")
@click.option(
    "--hardware", metavar="NAME", default="paper", help="The model's parameters to begin with (default paper)."
)
@click.option(
    "--like",
    metavar="RESULTS",
    type=click.Path(path_type=Path, file_okay=False),
    help="Fit to this measured run of one initiator instead, such as one of the embedded lab.",
)
@click.option("--seed", metavar="NUMBER", type=click.IntRange(0, 2**32 - 1), default=1, help="As harness simulate's.")
@click.option(
    "--write",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a copy of the hardware file with the fitted values there.",
)
@click.option(
    "--sensitivity", is_flag=True, help="Instead move each parameter by 20 % and show how much every claim changes."
)
@click.option(
    "--parameter",
    "names",
    metavar="NAME",
    multiple=True,
    help="With --sensitivity: move this one only; repeatable.",
)
@click.option(
    "--csv", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False), help="Write the table there as well."
)
def calibrate(  # noqa: PLR0917
    hardware: str,
    like: Path | None,
    seed: int,
    write: Path | None,
    sensitivity: bool,
    names: tuple[str, ...],
    csv: Path | None,
) -> None:
    """Fit the free parameters of the model to four of the paper's numbers and one of ours, and predict the others.

    With --like the numbers are those of a measured run. This takes some minutes, with --sensitivity up to a minute a
    step. The results are a model's, not SQL Server's.

    \b
    Examples:
      harness calibrate
      harness calibrate --hardware my-servers.toml --write fitted.toml
      harness calibrate --hardware this-machine --like results/reference/embedded
      harness calibrate --sensitivity --csv sensitivity.csv
      harness calibrate --sensitivity --parameter flush_latency_us
    """
    if names and not sensitivity:
        raise Failure("--parameter needs --sensitivity: add it", USAGE)
    if write and sensitivity:
        raise Failure("--write and --sensitivity exclude each other: sensitivity fits nothing", USAGE)
    if like and sensitivity:
        raise Failure("--like and --sensitivity exclude each other: sensitivity judges the paper's claims", USAGE)
    for path in (write, csv):
        if path:
            _require_writable(path)
    with one_line_errors():
        from harness.simulation import calibration, parameters
        from harness.simulation.bench import Bench

        model = parameters.read(hardware)
        wanted = calibration.numbers_of(like, model) if like else calibration.PAPER
        moved = names or calibration.charged(model) if sensitivity else model.free
        if not moved:
            raise parameters.HardwareError(f"hardware {model.name}: no parameter is `free = true`, so none is fitted")
        calibration.require_charged(model, moved)
        text = parameters.text_of(hardware) if write else ""
        if write:
            parameters.with_values_in(text, {name: model.value(name) for name in moved})
        say(f"a model of the hardware {hardware!r} in virtual time; its worlds are built first")
        with Bench(model, seed=seed) as bench:
            if sensitivity:
                rows = _sensitivity(bench, model, moved)
            else:
                rows = _fit(bench.measure, model, wanted, text, write)
                print_rows(rows)
        if csv:
            with csv.open("w", encoding="utf-8", newline="") as file:
                csv_module.writer(file, lineterminator="\n").writerows(rows)


def _require_writable(path: Path) -> None:
    """Raises Failure before minutes are spent on results that cannot be written."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise Failure(f"{path}: folder {folder} does not exist: create it", USAGE)
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise Failure(f"{path}: no permission to write it: choose another file", PREFLIGHT)


def _fit(
    measure: Measure, model: Parameters, wanted: ReferenceNumbers, text: str, write: Path | None
) -> list[list[str]]:
    from harness.simulation import calibration, parameters

    def on_evaluation(number: int, tried: Parameters) -> None:
        say(f"evaluation {number}: {_free_values(tried)}")

    fitted = calibration.fit(measure, model, wanted, on_evaluation=on_evaluation)
    say(f"fitted: {_free_values(fitted)}")
    if write:
        values = {name: fitted.value(name) for name in fitted.free}
        write.write_text(parameters.with_values_in(text, values), encoding="utf-8")
    found = calibration.numbers_at(measure, fitted, wanted.all)
    rows = [["number", "part", wanted.source, "the model", "unit"]]
    for number, value in zip(wanted.all, found, strict=True):
        part = "fitted" if number in wanted.fitted else "predicted"
        known = "" if number.known is None else f"{number.known:,.4g}"
        rows.append([number.name, part, known, f"{value:,.4g}", number.unit])
    return rows


def _free_values(model: Parameters) -> str:
    return ", ".join(f"{name} {model.value(name):g}" for name in model.free)


def _sensitivity(bench: Bench, model: Parameters, names: Sequence[str]) -> list[list[str]]:
    """Shows how far each claim moves; returns every number of every step."""
    from harness.reductions.spark_session import session
    from harness.reporting import duration
    from harness.simulation import sensitivity

    began_s, total = time.monotonic(), 1 + len(names) * len(sensitivity.STEPS)
    with session():  # one for all reductions
        base = sensitivity.judged(bench, model)
        say(f"1/{total}: as they are")
        moved = []
        for step in sensitivity.sensitivity(partial(sensitivity.judged, bench), model, names):
            moved.append(step)
            done = 1 + len(moved)
            left = duration((time.monotonic() - began_s) / done * (total - done))
            say(f"{done}/{total}: {step.parameter} × {step.factor:g} = {step.value:g}, {left} left")
    print_rows([["claim", "as they are", "least", "most", "verdict turns at"], *sensitivity.ranges(base, moved)])
    return [list(sensitivity.COLUMNS), *sensitivity.rows(base, moved)]
