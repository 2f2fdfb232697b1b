"""The verb that fits the model's free parameters, and shows what each parameter does to the results."""

# ruff: noqa: PLC0415  the verb imports its parts itself

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.common import EXIT_CODES, one_line_errors, say

if TYPE_CHECKING:
    from harness.simulation.calibration import Bench, Numbers
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
    help="A copy of the hardware file that is to get the fitted values.",
)
@click.option(
    "--sensitivity", is_flag=True, help="Instead move each parameter by 20 % and show what every number does."
)
@click.option(
    "--parameter", "names", metavar="NAME", multiple=True, help="With --sensitivity: this one alone; repeat it."
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
    """Fit the free parameters of the model to five of the paper's numbers, and predict the others.

    With --like they are a measured run's numbers. Takes some minutes. The result is a model's: no number of it is SQL
    Server's.

    \b
    Examples:
      harness calibrate
      harness calibrate --hardware my-servers.toml --write fitted.toml
      harness calibrate --hardware this-machine --like results/reference/embedded
      harness calibrate --sensitivity --parameter flush_latency_us
    """
    with one_line_errors():
        from harness.simulation import calibration, likeness, parameters

        model = parameters.read(hardware)
        wanted = likeness.numbers_of(like, model) if like else calibration.PAPER
        for name in names:
            model.with_values({name: model.value(name) if name in model.declared else 0})
        text = parameters.text_of(hardware) if write else ""
        say(f"a model of the hardware {hardware!r} in virtual time; its worlds are built first")
        with calibration.Bench(model, seed=seed) as bench:
            rows = _sensitivity(bench, model, wanted, names) if sensitivity else _fit(bench, model, wanted, text, write)
        _show(rows)
        if csv:
            csv.write_text("".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows), encoding="utf-8")


def _fit(bench: Bench, model: Parameters, wanted: Numbers, text: str, write: Path | None) -> list[list[str]]:
    from harness.simulation import calibration, parameters

    def on_evaluation(number: int, tried: Parameters) -> None:
        say(f"evaluation {number}: " + ", ".join(f"{name} {tried.value(name):g}" for name in tried.free))

    found = calibration.fit(bench, model, wanted, on_evaluation=on_evaluation)
    if write:
        write.write_text(
            parameters.with_values_in(text, {name: found.parameters.value(name) for name in model.free}),
            encoding="utf-8",
        )
    values = bench.numbers(found.parameters, wanted.all)
    rows = [["number", "part", wanted.source, "the model", "unit"]]
    for number, value in zip(wanted.all, values, strict=True):
        part = "fitted" if number in wanted.fitted else "predicted"
        known = "" if number.known is None else f"{number.known:,.4g}"
        rows.append([number.name, part, known, f"{value:,.4g}", number.unit])
    return rows


def _sensitivity(bench: Bench, model: Parameters, wanted: Numbers, names: Sequence[str]) -> list[list[str]]:
    from harness.simulation import calibration

    chosen = names or calibration.priced(model)
    total, done = 2 * len(chosen), 0

    def on_step(what: str) -> None:
        nonlocal done
        done += 1
        say(f"{done}/{total}: {what}")

    base, moved = calibration.sensitivity(bench, model, wanted, chosen, on_step=on_step)
    rows = [["parameter", "value", *(number.name for number in wanted.all)], ["as they are", "", *map(_short, base)]]
    for one in moved:
        for factor, values in ((1 - calibration.STEP, one.lower), (1 + calibration.STEP, one.higher)):
            rows.append([one.parameter, f"× {factor:g}", *map(_short, values)])
    return rows


def _short(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"


def _show(rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*rows[0])
    for row in rows[1:]:
        table.add_row(*row)
    Console(width=None if len(rows[0]) < 8 else 160).print(table)
