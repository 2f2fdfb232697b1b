"""Commands that put load on a lab: the matrix, one cell, one cell at several rates, by hand, the paper's techniques;
and the plan of a sweep."""

# ruff: noqa: PLC0415  a command imports its parts only when it runs

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import harness
from harness.cli.conventions import (
    ANY_LAB_OPTIONS,
    CLIENT_OPTIONS,
    LAB_OPTIONS,
    MATRIX_OPTIONS,
    console,
    json_option,
    metrics_option,
    on_console,
    print_rows,
    require_all_completed,
    require_free_port,
    settings_options,
)
from harness.cli.outcomes import CELLS_FAILED, PATH, USAGE, Failure
from harness.cli.results import draw_and_show, show
from harness.output.terminal import say

if TYPE_CHECKING:
    from harness.definitions.load_model import Arrivals
    from harness.output.reporting import Reporter

WEB_PORT = 8089  # Locust's own


@click.command()
@settings_options(
    *(*ANY_LAB_OPTIONS, "workload", "server_versions", *MATRIX_OPTIONS, "repeats", "blocks", "warm_up", "precision"),
    *("rate", "arrivals", *CLIENT_OPTIONS, "measure", "settle", "drain", "events", "seed", "hardware", "master"),
    *("results", "settings", "resume"),
)
@click.option("--only-sweep", is_flag=True, help="Do not reduce and draw afterwards.")
@click.option("--yes", is_flag=True, help="Do not ask before a sweep of more than an hour.")
@click.option(
    "--web",
    is_flag=False,
    flag_value=WEB_PORT,
    type=int,
    metavar="[PORT]",
    help=f"Show the sweep on a page at 127.0.0.1, port {WEB_PORT} or the given one.",
)
@click.option(
    "--pair",
    metavar="A,B",
    help="Measure two workloads, or two settings files (TOML), block by block in turns, and compare them.",
)
@json_option("the cells, or the comparison of a pair,")
@metrics_option("rates, latencies, queues and waits")
def matrix(  # noqa: PLR0917
    resume: Path | None,
    only_sweep: bool,
    yes: bool,
    web: int | None,
    pair: str | None,
    json_file: Path | None,
    metrics: int | None,
    settings_file: Path | None,
    **options: Any,
) -> None:
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
      harness matrix --lab-file lab.toml --workers-per-initiator 4
      harness matrix --lab-file lab.toml --master-bind-host 10.0.0.5     clients elsewhere: harness worker --help
      harness matrix --pair paper,my-workload --matrix trick --repeats 5     before and after a change
      harness matrix --matrix quick --web               a page shows what is done, and the rates so far
      harness matrix --matrix quick --lab simulated     a model of the paper's hardware, in virtual time
      harness matrix --resume results/20260101-120000-sqlserver
    """
    if pair or (resume and (resume / "a").is_dir()):
        if given := [name for name, value in (("only-sweep", only_sweep), ("web", web), ("metrics", metrics)) if value]:
            raise Failure(f"--{given[0]}: not with a pair of runs, leave it out", USAGE)
        return _pair(pair, resume, settings_file, options, json_file, ask=not yes)
    with on_console(ask=not yes) as shown, _on_page(shown, web) as on_page, _with_metrics(on_page, metrics) as reporter:
        measured = harness.run_matrix(
            resume=resume, settings_file=settings_file, reduce=not only_sweep, progress=reporter, **options
        )
        if only_sweep:
            say(f"results: {measured.folder}")
        else:
            draw_and_show(measured, reporter)
    if json_file:
        measured.document().write_json(json_file)
    require_all_completed(measured)


def _pair(
    names: str | None,
    resume: Path | None,
    settings_file: Path | None,
    options: Mapping[str, Any],
    json_file: Path | None,
    *,
    ask: bool,
) -> None:
    """Run both sides of a pair and compare them."""
    with on_console(ask=ask) as reporter:
        runs = harness.run_pair(
            *re.split(r"\s*,\s*", names or ""), resume=resume, settings_file=settings_file, progress=reporter, **options
        )
        folder = runs[0].folder.parents[1] / "compared"
        comparison = runs[0].compare(runs[1], folder, console=console(), progress=reporter)
    if json_file:
        comparison.document().write_json(json_file)
    for run in runs:
        say(f"results: {run.folder}")
    say(f"{comparison.conclusion} Next: look at {folder}")
    for run in runs:
        require_all_completed(run)


@contextmanager
def _on_page(shown: Reporter, port: int | None) -> Iterator[Reporter]:
    """Yield a reporter that shows everything on a page too, if there is a port for one."""
    if port is None:
        yield shown
        return
    from harness.load.pages import sweep

    require_free_port(port, "--web")
    with sweep.serving(shown, port) as page:
        try:
            yield page
        except BaseException as error:
            page.finish("interrupted" if isinstance(error, KeyboardInterrupt) else f"stopped: {error}")
            raise
        page.finish("done")


@contextmanager
def _with_metrics(shown: Reporter, port: int | None) -> Iterator[Reporter]:
    """Yield a reporter that serves the numbers for Prometheus too, if there is a port for them."""
    if port is None:
        yield shown
        return
    from harness.load.pages import openmetrics

    reporter = openmetrics.SweepMetrics(shown)
    with openmetrics.serving(port, reporter):
        yield reporter


@click.command()
@click.argument("cell", required=False)
@settings_options(
    *(*ANY_LAB_OPTIONS, "workload", "rate", "arrivals", *CLIENT_OPTIONS),
    *("measure", "settle", "drain", "events", "seed", "hardware", "results", "settings"),
)
@click.option("--initiators", metavar="N", help="How many send (default 1).")
@click.option("--threads", metavar="N", help="Client threads per initiator (default 10).")
@click.option("--dialog-ratio", metavar="N", help="1, or any other such as 150: use every 150th dialog (default 150).")
@click.option("--payload", "payload_bytes", metavar="BYTES", help="Bytes a message, such as 4000 or 8KB (default 100).")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the newest of a sweep).")
@json_option("its numbers")
def run(cell: str | None, json_file: Path | None, settings_file: Path | None, **options: Any) -> None:
    """Run one cell and print its numbers.

    \b
    Examples:
      harness run
      harness run i3-t50-r1-p8192-v2022 --measure 10s
      harness run --threads 500 --payload 4000
      harness run --threads 50 --rate 500/s --arrivals poisson
      harness run --lab simulated --threads 80 --dialog-ratio 7     a model, in virtual time
    """
    from harness.output import reporting

    measured = harness.run_cell(cell, settings_file=settings_file, reduce=False, progress=reporting.Notes(), **options)
    show(measured, f"harness queue-course {shlex.quote(str(measured.folder))} 'i*'")
    if json_file:
        measured.document().write_json(json_file)
    if measured.outcome.failed:
        raise Failure(measured.outcome.reason, CELLS_FAILED)


@click.command(short_help="Does a lab keep its rate, its size and every message for hours?")
@click.argument("cell")
@settings_options(
    *(*LAB_OPTIONS, "workload", "rate", "arrivals", *CLIENT_OPTIONS),
    *("measure", "settle", "drain", "seed", "results", "settings"),
)
@click.option("--for", "duration", default="8h", show_default=True, metavar="TIME", help="How long, such as 90m or 8h.")
@click.option(
    "--restart-target", is_flag=True, help="Ask for a restart of the target in the middle, with messages on their way."
)
@click.option("--yes", is_flag=True, help="Do not ask before a run of more than an hour.")
def soak(cell: str, duration: str, restart_target: bool, yes: bool, settings_file: Path | None, **options: Any) -> None:
    """Run one cell again and again on the same instances and dialogs, and show what drifts.

    Each time, for a minute or --measure, all messages are accounted for. The figure `soak` has rates, depths, pages of
    queues, conversations and memory by time. Nothing is rebuilt meanwhile. What was interrupted goes on with harness
    matrix --resume.

    \b
    Examples:
      harness soak i3-t50-r150-p1024-v2022 --lab-file lab.toml
      harness soak i1-t10-r1-p100-v2022 --for 90m --lab-file lab.toml --restart-target
      harness soak i1-t5-r1-p100-v2008 --for 5m --measure 5s --lab embedded
    """
    with on_console(ask=not yes) as reporter:
        measured = harness.run_soak(
            cell,
            duration=duration,
            restart_target=restart_target,
            settings_file=settings_file,
            progress=reporter,
            **options,
        )
        draw_and_show(measured, reporter)
    require_all_completed(measured)


@click.command(short_help="Load by hand: Locust's web UI with a lab behind it.")
@settings_options(*LAB_OPTIONS, "workload", "rate", "arrivals", *CLIENT_OPTIONS, "settings")
@click.option("--port", default=WEB_PORT, show_default=True, help="Port of the web page on 127.0.0.1.")
@click.option("--initiators", metavar="N", help="How many initiators the lab has (default those of the lab, or 3).")
@click.option("--server-version", metavar="VERSION", help="Version of SQL Server (default the newest of a sweep).")
@metrics_option("queues, monitors and waits")
def ui(
    port: int,
    initiators: str | None,
    server_version: str | None,
    metrics: int | None,
    settings_file: Path | None,
    **options: Any,
) -> None:
    """Start Locust's web UI with a lab behind it: load by hand, charts that move.

    Open http://127.0.0.1:8089, choose load model, initiators, threads, dialog ratio and payload, press Start. The page
    suggests what lab and workload have, and the paper's threads and ratios; any other that a cell may have is valid.
    Beside Locust's charts of the calls it shows queues, queue monitors, waits and page latches of the instances by
    second, before, during and after a run. Ctrl-C here ends all.

    \b
    Examples:
      harness ui
      harness ui --lab-file lab.toml --port 9000
      harness ui --lab embedded --initiators 5
      harness ui --rate 500/s
    """
    from harness.experiments import selected_cells
    from harness.lab import opening

    chosen = opening.select_lab(options, settings_file=settings_file)
    initiators_wanted = initiators or chosen.topology.initiators_usual
    axes = selected_cells.axes({"initiators": initiators_wanted, "server_version": server_version}, chosen.topology)
    say(chosen.first_line)
    require_free_port(port, "--port")
    from harness.load import ui as load_ui

    load_ui.main(
        chosen,
        port=port,
        metrics=metrics,
        version=axes.server_version,
        initiators=axes.initiators,
        payload_bytes=axes.payload_bytes,
        say=say,
    )


@click.command(short_help="Show what a sweep would do, and how long it takes.")
@settings_options(
    *LAB_OPTIONS,
    *("workload", "server_versions", *MATRIX_OPTIONS, "repeats", "blocks", "warm_up", "precision", "rate", "arrivals"),
    *("measure", "settle", "drain", "seed", "results", "settings"),
)
@click.option("--list", "list_cells", is_flag=True, help="Print the ids of the cells in the order in which they run.")
@click.option(
    "--noise-from",
    type=PATH,
    metavar="DIR",
    help="A former run of this lab with repeats: the table takes its noise, the times how long its cells settled.",
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
    planned = harness.plan_matrix(noise_from=noise_from, settings_file=settings_file, **options)
    for line in (planned.lab, *planned.lines):
        say(line)
    if list_cells:
        for cell in planned.cells:
            say(cell)
    else:
        print_rows(planned.repeats)
        say(planned.explanation)
    if planned.forecast:
        say(planned.forecast)
    if not list_cells or planned.forecast:
        say(planned.noise)


@click.command(short_help="Twin runs: how much do two runs of the same thing differ here?")
@settings_options(
    *(*LAB_OPTIONS, "workload", "server_versions", *MATRIX_OPTIONS, "repeats", "blocks", "warm_up", "rate", "arrivals"),
    *(*CLIENT_OPTIONS, "measure", "settle", "drain", "seed", "results", "settings"),
)
@click.option("--runs", metavar="N", type=int, default=6, show_default=True, help="How many twins.")
@click.option("--resume", metavar="DIR", type=PATH, help="Make the runs that this folder of twins lacks.")
@click.option("--yes", is_flag=True, help="Do not ask before a run of more than an hour.")
def aa(runs: int, resume: Path | None, yes: bool, settings_file: Path | None, **options: Any) -> None:
    """Measure the same thing again and again (an A/A test), and say how much runs differ, blocks of a run, and
    measurements of a block.

    What it finds is a certificate for this lab on this machine. `harness compare` takes it into its intervals, so that
    a difference of two runs is not taken for one of the code, and `harness plan` takes its noise. Make it anew when the
    machine or the lab has changed. Without --matrix each run has four cells in three blocks.

    \b
    Examples:
      harness aa --lab embedded                         about 6 minutes
      harness aa --lab-file lab.toml --runs 10
      harness aa --lab embedded --matrix quick --repeats 3
      harness aa --resume results/20260101-120000-embedded-twins
    """
    with on_console(ask=not yes) as reporter:
        certificate = harness.run_twins(
            runs=runs, resume=resume, settings_file=settings_file, progress=reporter, **options
        )
    print_rows(certificate.rows)
    say(f"{certificate.sentence} Next: harness compare A B takes this into its intervals")


_repeated_steps = click.option(
    "--repeats", metavar="N", help="Run every step so often, in blocks: each is one pass over them (default 1)."
)


@click.command(short_help="One cell at 10 to 110 % of its rate: latency against throughput.")
@click.argument("cell", required=False)
@settings_options(*ANY_LAB_OPTIONS, "workload")
@click.option(
    "--arrivals",
    type=click.Choice(["constant", "poisson"]),
    help="Intended starts of the open loops: constant intervals (default), or a Poisson process by the seed.",
)
@click.option("--measure", metavar="TIME", help="Length of a step's window (default 30s, embedded and simulated 5s).")
@settings_options("settle", "drain", "seed", "hardware", *CLIENT_OPTIONS, "results")
@_repeated_steps
@settings_options("resume")
def rates(cell: str | None, arrivals: Arrivals | None, resume: Path | None, **options: Any) -> None:
    """Run a cell in the closed loop, then in open loops at 10 %, 20 %, ... 110 % of its rate; print a table and draw
    latency against throughput.

    In an open loop each initiator's clients send at the rate, whatever the answers take, and a latency counts from the
    intended start of a call: it includes the time in which no thread was free. `--lab simulated` is a model of the
    paper's hardware in virtual time; its numbers are not SQL Server's.

    \b
    Examples:
      harness rates i1-t10-r150-p100-v2008 --lab embedded
      harness rates i3-t50-r1-p100-v2008 --lab simulated --arrivals poisson
      harness rates i1-t10-r150-p100-v2008 --lab embedded --repeats 5
      harness rates i1-t50-r150-p100-v2022 --lab-file lab.toml --measure 1m
      harness rates --resume results/20260101-120000-embedded
    """
    with on_console() as reporter:
        measured = harness.run_rates(cell, arrivals=arrivals, resume=resume, progress=reporter, **options)
    _show_steps(measured)
    require_all_completed(measured, "steps")


def _show_steps(measured: harness.Run) -> None:
    """Print the numbers of the completed steps."""
    show(measured, f"look at {measured.folder / 'figures'}")


@click.command(short_help="Run the paper's recommendations one after another.")
@settings_options(*ANY_LAB_OPTIONS, "server_versions")
@click.option("--measure", metavar="TIME", help="Length of a step's measured window (default the scenario's).")
@click.option("--settle", metavar="TIME", help="Longest wait for a steady state before it (default the scenario's).")
@click.option("--drain", metavar="TIME", help="Longest wait until all messages are processed (default the scenario's).")
@settings_options("results", "seed", "hardware", *CLIENT_OPTIONS)
@_repeated_steps
@click.option(
    "--scenario",
    "scenario_file",
    metavar="NAME|FILE",
    type=PATH,
    help="Load and steps: techniques (default), variants, or a TOML file of your own.",
)
@click.option(
    "--add-to",
    metavar="DIR",
    type=PATH,
    help="Also copy the table into the folder of a run of cells on the same lab, for its claims and its report.",
)
@settings_options("resume")
def techniques(scenario_file: Path | None, add_to: Path | None, resume: Path | None, **options: Any) -> None:
    """Run the paper's recommendations, and what it warns of, one after another under the same load; then print a
    table and draw a figure of what each is worth.

    Each of the first steps adds a recommendation to the step before: a dialog per message, dialogs reused, RECEIVE TOP
    (n), readers that stay, readers per core, the 150 trick. Each of the others leaves one out: RECEIVE TOP (1), readers
    that end at once, one reader, one conversation for all, one message per conversation, no warm-up. The steps run on
    the newest version of a sweep, for the times in the scenario. `--lab simulated` is a model of the paper's hardware
    in virtual time; its numbers are not SQL Server's.

    `--scenario variants` compares other set-ups with the paper's instead: tables without a key, no ORDER BY in the
    receiving procedure, no EXECUTE AS in the sending one, queues that retain messages, batch processing.

    \b
    Examples:
      harness techniques --lab embedded
      harness techniques --lab simulated --repeats 3
      harness techniques --lab embedded --add-to results/20260101-120000-embedded
      harness techniques --lab-file lab.toml --repeats 3
      harness techniques --lab-file lab.toml --scenario variants
      harness techniques --resume results/20260101-120000-embedded
    """
    with on_console() as reporter:
        measured = harness.run_techniques(
            scenario_file=scenario_file, add_to=add_to, resume=resume, progress=reporter, **options
        )
    _show_steps(measured)
    require_all_completed(measured, "runs")
