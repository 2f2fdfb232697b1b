"""Commands that put load on a lab: the matrix, one cell, one cell at several rates, by hand, the paper's techniques;
and the plan of a sweep."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.conventions import (
    CELLS_FAILED,
    EXIT_CODES,
    LAB_OPTIONS,
    MATRIX_OPTIONS,
    OK,
    PATH,
    PREFLIGHT,
    USAGE,
    Failure,
    one_line_errors,
    print_rows,
    require_all_completed,
    say,
    settings_options,
)
from harness.cli.results import reduce_and_draw, say_states, states_by_cell

if TYPE_CHECKING:
    from harness.load_model import Arrivals
    from harness.sweep.attempt import Measured


@click.command(epilog=EXIT_CODES)
@settings_options(
    *LAB_OPTIONS,
    "workload",
    "server_versions",
    *MATRIX_OPTIONS,
    "repeats",
    "precision",
    "rate",
    "arrivals",
    "measure",
    "settle",
    "drain",
    "seed",
    "results",
    "settings",
    "resume",
)
@click.option("--only-sweep", is_flag=True, help="Do not reduce and draw afterwards.")
@click.option("--yes", is_flag=True, help="Do not ask before a sweep of more than an hour.")
def matrix(resume: Path | None, only_sweep: bool, yes: bool, settings_file: Path | None, **options: Any) -> None:
    """Sweep the cells of a matrix, then reduce and draw.

    A cell is one combination of initiators, client threads per initiator, dialog ratio (1, or 150: only every 150th
    dialog is used), payload and server version. Without options the matrix is the paper's: 528 cells for two versions.
    Every run has a folder of its own; the last lines printed name it and its figures.

    \b
    Examples:
      harness matrix --lab embedded                     all 528 cells; harness plan says how long
      harness matrix --matrix quick                     24 cells that span all axes
      harness matrix --matrix trick                     does the 150 trick pay here?
      harness matrix --matrix mine.toml --repeats 5     your own, in five blocks
      harness matrix --initiators 1,2 --threads 1,64,500 --payloads 4000
      harness matrix --matrix quick --repeats 20 --precision 10%
      harness matrix --lab-file lab.toml --cells 'i1-*-p100-*' --measure 1m
      harness matrix --cells 'i1-t50-*-p100' --rate 500/s
      harness matrix --resume results/20260101-120000-sqlserver
    """
    from harness import reporting
    from harness.sweep import matrix_run

    with one_line_errors():
        if not only_sweep:
            from harness.reductions.spark_session import require_java

            require_java()  # before the sweep, not half an hour later
        with reporting.on_console(ask=not yes) as reporter:
            outcome = matrix_run.sweep(options, reporter, settings_file=settings_file, resume=resume)
        if outcome is None:
            sys.exit(OK)
        if not only_sweep and outcome.completed:
            reduce_and_draw(outcome.results)
        say(f"results: {outcome.results}")
    require_all_completed(outcome)


@click.command(epilog=EXIT_CODES)
@click.argument("cell", required=False)
@settings_options(*LAB_OPTIONS, "workload", "rate", "arrivals", "measure", "settle", "drain", "results", "settings")
@click.option("--initiators", metavar="N", help="How many send (default 1).")
@click.option("--threads", metavar="N", help="Client threads per initiator (default 10).")
@click.option("--dialog-ratio", metavar="N", help="1, or any other such as 150: use every 150th dialog (default 150).")
@click.option("--payload", "payload_bytes", metavar="BYTES", help="Bytes a message, such as 4000 or 8KB (default 100).")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the lab's newest).")
def run(cell: str | None, settings_file: Path | None, **options: Any) -> None:
    """Run one cell and print its numbers.

    \b
    Examples:
      harness run
      harness run i3-t50-r1-p8192-v2022 --measure 10s
      harness run --threads 500 --payload 4000
      harness run --threads 50 --rate 500/s --arrivals poisson
    """
    from harness import reporting
    from harness.sweep import matrix_run

    axes = {
        name: options.pop(name) for name in ("initiators", "threads", "dialog_ratio", "payload_bytes", "server_version")
    }
    with one_line_errors():
        outcome = matrix_run.single(cell, axes, options, reporting.Notes(), settings_file=settings_file)
        if outcome.measured:
            _print_cell(outcome.measured)
            say_states(outcome.results)
        say(f"results: {outcome.results}")
    if outcome.failed:
        raise Failure(outcome.reason, CELLS_FAILED)


def _print_cell(measured: Measured) -> None:
    """Prints the numbers of a completed cell, with the columns of the table of a matrix."""
    latencies = [_milliseconds(measured.latencies_us[name]) for name in ("p50", "p95", "p99")]
    rates = [f"{measured.sent_per_s:,.0f}", f"{measured.processed_per_s:,.0f}"]
    print_rows(
        [["sent/s", "processed/s", "send p50, ms", "p95, ms", "p99, ms", "state"], [*rates, *latencies, measured.state]]
    )
    if (kept := measured.punctuality).rate_per_s:
        sends = f"{kept.due:,} sends were due, {kept.late:,} started late, {kept.missed:,} never"
        say(f"open loop: latency counts from the intended start; {sends}")
    say(f"accounting: {measured.sent:,} messages sent, each processed once and in order")


def _milliseconds(microseconds: float) -> str:
    return "–" if math.isnan(microseconds) else f"{microseconds / 1000:,.2f}"


@click.command(epilog=EXIT_CODES, short_help="Load by hand: Locust's web UI with a lab behind it.")
@settings_options(*LAB_OPTIONS, "workload", "rate", "arrivals", "settings")
@click.option("--port", default=8089, show_default=True, help="Port of the web page on 127.0.0.1.")
@click.option("--initiators", metavar="N", help="How many initiators the lab has (default those of the lab, or 3).")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the lab's newest).")
def ui(
    port: int, initiators: str | None, server_version: str | None, settings_file: Path | None, **options: Any
) -> None:
    """Start Locust's web UI with a lab behind it: load by hand, charts that move.

    Open http://127.0.0.1:8089, choose initiators, threads, dialog ratio and payload, press Start. The page suggests the
    paper's values; any other that a cell may have is valid. Ctrl-C here ends all.

    \b
    Examples:
      harness ui
      harness ui --lab-file lab.toml --port 9000
      harness ui --lab embedded --initiators 5
      harness ui --rate 500/s
    """
    from harness.lab import opening
    from harness.sweep import selected_cells

    with one_line_errors():
        chosen = opening.select_lab(options, settings_file=settings_file)
        wanted = initiators or chosen.topology.initiators_usual
        axes = selected_cells.axes({"initiators": wanted, "server_version": server_version}, chosen.topology)
        say(chosen.first_line)
        _require_free_port(port)
        from harness.load import ui as load_ui

        load_ui.main(chosen, port=port, version=axes.server_version, initiators=axes.initiators, say=say)


@click.command(epilog=EXIT_CODES, short_help="Show what a sweep would do, and how long it takes.")
@settings_options(
    *LAB_OPTIONS,
    *("workload", "server_versions", *MATRIX_OPTIONS, "repeats", "precision", "rate", "arrivals"),
    *("measure", "settle", "drain", "seed", "settings"),
)
@click.option("--list", "list_cells", is_flag=True, help="Print the ids of the cells in the order in which they run.")
@click.option(
    "--noise-from", type=PATH, metavar="DIR", help="A former run of this lab with repeats, whose noise the table takes."
)
def plan(list_cells: bool, noise_from: Path | None, settings_file: Path | None, **options: Any) -> None:
    """Show what a sweep would do: cells, groups, dialogs to build, how long it takes, and what difference its repeats
    can show. Starts nothing.

    \b
    Examples:
      harness plan
      harness plan --matrix trick --lab sqlserver
      harness plan --cells 'i3-*' --list
      harness plan --noise-from results/20260101-120000-embedded
    """
    from harness.lab import opening
    from harness.sweep import matrix_run, repeats_plan, selected_cells

    with one_line_errors():
        chosen = opening.select_lab(options, settings_file=settings_file)
        noise = repeats_plan.of_run(noise_from, chosen.settings.lab) if noise_from else repeats_plan.assumed()

        def estimate_s(repeats: int) -> float:
            repeated = chosen.settings.model_copy(update={"repeats": repeats, "precision": None})
            return matrix_run.estimate_s(repeated, selected_cells.visits_on(chosen.topology, repeated))

        say(chosen.first_line)
        visits = selected_cells.visits_on(chosen.topology, chosen.settings)
        for line in matrix_run.plan_lines(chosen.settings, visits, list_cells=list_cells):
            say(line)
        if not list_cells:
            print_rows(repeats_plan.rows(noise, estimate_s))
            say(repeats_plan.EXPLANATION)
        precision = chosen.settings.precision
        if precision is not None:
            say(repeats_plan.forecast(precision, chosen.settings.repeats, noise))
        if not list_cells or precision is not None:
            say(str(noise))


_any_lab = click.option(
    "--lab",
    metavar="NAME",
    help="Where the instances run: sqlserver, embedded or simulated. Default: sqlserver where a Docker engine "
    "answers or --lab-file names servers, else embedded.",
)
_other_lab_options = tuple(name for name in LAB_OPTIONS if name != "lab")

_repeated_steps = click.option(
    "--repeats", metavar="N", help="Run every step so often, in blocks: each is one pass over them (default 1)."
)


@click.command(epilog=EXIT_CODES, short_help="One cell at 10 to 110 % of its rate: latency against throughput.")
@click.argument("cell")
@_any_lab
@settings_options(*_other_lab_options, "workload")
@click.option(
    "--arrivals",
    type=click.Choice(["constant", "poisson"]),
    default="constant",
    show_default=True,
    help="Intended starts of the open loops: constant intervals, or a Poisson process by the seed.",
)
@click.option("--measure", metavar="TIME", help="Length of a step's window (default 30s, embedded and simulated 5s).")
@settings_options("settle", "drain", "seed", "hardware", "results")
@_repeated_steps
def rates(cell: str, arrivals: Arrivals, **options: Any) -> None:
    """Run a cell in the closed loop, then in open loops at 10 %, 20 %, ... 110 % of its rate; print a table and draw
    latency against throughput.

    In an open loop each initiator's clients send at the rate, whatever the answers take, and a latency counts from the
    intended start of a send: it includes the time in which no thread was free. `--lab simulated` is a model of the
    paper's hardware in virtual time; its numbers are not SQL Server's.

    \b
    Examples:
      harness rates i1-t10-r150-p100-v2008 --lab embedded
      harness rates i3-t50-r1-p100-v2008 --lab simulated --arrivals poisson
      harness rates i1-t10-r150-p100-v2008 --lab embedded --repeats 5
      harness rates i1-t50-r150-p100-v2022 --lab-file lab.toml --measure 1m
    """
    from harness import reporting
    from harness.rates import rates_run

    with one_line_errors():
        with reporting.on_console() as reporter:
            outcome = rates_run.run(options, reporter, cell_id=cell, arrivals=arrivals)
        _print_rates(outcome.results)
        say(f"results: {outcome.results}")
    require_all_completed(outcome, "steps")


def _print_rates(results: Path) -> None:
    """Prints the numbers of the completed steps."""
    import pandas as pd

    from harness.figures import rate_lines
    from harness.rates.rate_steps import step_id

    path = results / "reduced" / "rates.parquet"
    if not path.is_file():
        return
    means = rate_lines.over_blocks(pd.read_parquet(path))
    rows = [
        ["load", "asked/s", "sent/s", "processed/s", "send p50, ms", "p95, ms", "p99, ms", "late", "never", "state"]
    ]
    states, names = states_by_cell(results), {}
    for step in means.itertuples():
        is_open = pd.notna(step.percent)
        key = step_id(int(step.percent) if is_open else None)
        names[key] = f"open loop, {step.percent:.0f} %" if is_open else "closed loop"
        rows.append(
            [
                names[key],
                f"{step.asked_per_s:,.0f}" if is_open else "",
                f"{step.sent_per_s:,.0f}{'' if step.was_made else ' (not made)'}",
                f"{step.processed_per_s:,.0f}",
                *(_latency_words(step, name) for name in ("p50", "p95", "p99")),
                *(f"{value:,.0f}" if is_open else "" for value in (step.late_calls, step.missed_calls)),
                states[key],
            ]
        )
    say("Latency counts from the intended start; in the closed loop, from the call.")
    say(rate_lines.repeats_words(int(means.blocks.max())))
    print_rows(rows)
    say_states(results, "steps", names)


def _latency_words(step: Any, percentile: str) -> str:
    """`12.3 (11.9 to 12.8)`; without the interval where it is not known."""
    value, low, high = (getattr(step, f"latency_us_{percentile}{end}") / 1000 for end in ("", "_low", "_high"))
    if math.isnan(value):
        return "too few calls"
    return f"{value:,.2f}{'' if math.isnan(low) else f' ({low:,.2f} to {high:,.2f})'}"


@click.command(epilog=EXIT_CODES, short_help="Run the paper's recommendations one after another.")
@_any_lab
@settings_options(*_other_lab_options, "server_versions")
@click.option("--measure", metavar="TIME", help="Length of a step's measured window (default the scenario's).")
@click.option("--settle", metavar="TIME", help="Longest wait for a steady state before it (default the scenario's).")
@click.option("--drain", metavar="TIME", help="Longest wait until all messages are processed (default the scenario's).")
@settings_options("results")
@click.option("--seed", metavar="NUMBER", help="Seed of every random choice in the simulated lab (default 1).")
@settings_options("hardware")
@_repeated_steps
@click.option(
    "--scenario",
    "scenario_file",
    metavar="FILE",
    type=PATH,
    help="TOML file of the load and the steps (default harness/techniques/techniques.toml).",
)
@click.option(
    "--add-to",
    metavar="DIR",
    type=PATH,
    help="Also copy the table into the folder of a run of cells on the same lab, for its claims and its report.",
)
def techniques(scenario_file: Path | None, add_to: Path | None, **options: Any) -> None:
    """Run the paper's recommendations, and what it warns of, one after another under the same load; then print a
    table and draw a figure of what each is worth.

    Each of the first steps adds a recommendation to the step before: a dialog per message, dialogs reused, RECEIVE TOP
    (n), readers that stay, readers per core, the 150 trick. Each of the others leaves one out: RECEIVE TOP (1), readers
    that end at once, one reader, one conversation for all, one message per conversation, no warm-up. The steps run on
    the lab's newest version, for the times in the scenario. `--lab simulated` is a model of the paper's hardware in
    virtual time; its numbers are not SQL Server's.

    \b
    Examples:
      harness techniques --lab embedded
      harness techniques --lab simulated --repeats 3
      harness techniques --lab embedded --add-to results/20260101-120000-embedded
      harness techniques --lab-file lab.toml --repeats 3
    """
    from harness import reporting
    from harness.techniques import scenario_run

    with one_line_errors():
        with reporting.on_console() as reporter:
            outcome = scenario_run.run(options, reporter, scenario_file=scenario_file, add_to=add_to)
        _print_table(outcome.results)
        say(f"results: {outcome.results}")
    require_all_completed(outcome, "runs")


def _print_table(results: Path) -> None:
    """Prints the numbers of the completed steps."""
    import pandas as pd

    from harness.figures import technique_bars

    path = results / "reduced" / "techniques.parquet"
    if not path.is_file():
        return
    means = technique_bars.over_runs(pd.read_parquet(path))
    titles = dict(zip(means.technique, means.title, strict=True))
    rows = [["step", "processed/s", "ratio", "to", "send p95, ms", "state"]]
    states = states_by_cell(results)
    for row in means.itertuples():
        latency, state = _milliseconds(row.latency_us_p95), states[row.technique]
        rows.append([row.title, f"{row.processed:,.0f}", row.factor, titles.get(row.compared_with, ""), latency, state])
    say("Messages that the target processed per second, and their ratio to those of another step:")
    say(technique_bars.repeats_words(int(means.runs.max())))
    print_rows(rows)
    say_states(results, "runs", titles)


def _require_free_port(port: int) -> None:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OverflowError:
            raise Failure(f"invalid --port {port}: choose 1 to 65535", USAGE) from None
        except OSError as error:
            raise Failure(
                f"port {port} on 127.0.0.1 cannot be used ({error.strerror}): choose another with --port", PREFLIGHT
            ) from None
