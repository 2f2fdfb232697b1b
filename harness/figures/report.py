"""`report.html`: one self-contained page with a run's findings in sentences, claims, figures and circumstances."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import pandas as pd
from jinja2 import Environment, FileSystemLoader

from harness.claims import Judgement, counted
from harness.claims.gain import precision_reached
from harness.claims.judgement import of_the_trick, over_blocks
from harness.definitions import units
from harness.definitions.whitepaper import (
    BASE_DIALOG_RATIO,
    GAIN_MAX_PERCENT,
    GAIN_NOTICEABLE_FROM,
    LATCHED_TABLE,
    NO_GAIN_UP_TO,
    PUBLISHED,
    TITLE,
    TOP_WAIT,
    TRICK_DIALOG_RATIO,
)
from harness.doctor import commits
from harness.doctor.instance_settings import LICENCE
from harness.figures import instance_activity, pages, trick_answer
from harness.figures.headlines import (
    ONE_POOL,
    PERCENTILES,
    USED_ALONE,
    Columns,
    conclusion,
    gain_columns,
    gain_sentence,
    headlines,
    highest_rate,
    milliseconds,
    peak_columns,
    version_sentences,
)
from harness.figures.reduced_run import COUNTED, Missing, Run, clocks, footer, listed, origin
from harness.files.records import REPORT, NotWritable, written_whole
from harness.files.workload_file import PAPER
from harness.output.safe_text import visible_lines


def write(run: Run, figures: Sequence[Path], judged: Sequence[Judgement]) -> Path:
    """Write the page into the run's folder, whole or not at all.

    `figures` are the files that were drawn, `judged` the judgements of the paper's claims.
    """
    # Of a run without a cell of the paper its claims say nothing, unless techniques were added to it.
    judgements = judged if run.has_papers_cells or any(judgement.measured for judgement in judged) else []
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=_visible)
    page = environment.get_template(REPORT).render(
        origin=origin(run.lab, run.load, run.versions),
        run_id=run.run_id,
        lab=run.lab,
        warning=run.kind.words.footer,
        licence=LICENCE if run.kind.can.is_measurement else "",
        warnings=_warnings(run),
        workload="" if run.workload == PAPER else " ".join(filter(None, (f"Workload {run.workload}.", run.about))),
        has_intervals=run.has_intervals,
        has_trick=TRICK_DIALOG_RATIO in set(run.cells.dialog_ratio),
        paper=f"{TITLE}, {PUBLISHED}" if run.has_papers_cells or judgements else "",
        answer=trick_answer.answer(run) if trick_answer.is_asked(run) else conclusion(run),
        evidence=trick_answer.evidence(run) if trick_answer.is_asked(run) else [],
        findings=findings(run),
        headlines=headlines(run),
        headline_columns=_headline_columns(run),
        judged=judgements,
        verdicts=counted(judged),
        several_versions=len(run.versions) > 1,
        invalid=invalid_cells(run.cells),
        measurements=measurements(run.cells),
        cells=cell_rows(run.cells, is_counted=run.is_counted),
        is_counted=run.is_counted,
        clocks=clocks(run.manifest),
        figures=_figures(run, figures),
        footer=footer(run),
        facts=facts(run),
    )
    path = run.folder / REPORT
    try:
        with written_whole(path) as file:
            file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise NotWritable(f"{path} cannot be written: {error.strerror}") from None
    return path


def _visible(value: Any) -> Any:
    """Return what the page shows of a value: of text, also where it is HTML already, nothing that a browser obeys."""
    return type(value)(visible_lines(value)) if isinstance(value, str) else value


def _headline_columns(run: Run) -> Columns:
    """Return the columns of the terminal's table, with the paper's peak where it belongs, and latencies."""
    papers: Columns = {"the paper’s peak, every 150th dialog": attrgetter("peak_paper")} if run.has_papers_cells else {}
    latencies: Columns = {"latency of a call at the peak, p50 / p95 / p99": attrgetter("latency")}
    if not run.is_counted:
        latencies["end to end at the peak, p50 / p95 / p99"] = attrgetter("end_to_end")
    return peak_columns(run) | papers | gain_columns(run) | latencies


def cell_rows(cells: pd.DataFrame, *, is_counted: bool = False) -> list[dict[str, str]]:
    """Return each cell and block as it is printed: state, rates, and percentiles in milliseconds, by heading."""
    latencies = {"call": "latency_us"} | ({} if is_counted else {"end to end": "end_to_end_us"})
    return [
        {
            "cell": str(row.cell_id),
            "block": str(row.block),
            "state": str(row.state),
            "processed/s": f"{row.processed_per_s:,.0f}",
            "sent/s": f"{row.sent_per_s:,.0f}",
            **{
                f"{words} {name}": milliseconds(getattr(row, f"{prefix}_{name}"))
                for words, prefix in latencies.items()
                for name in PERCENTILES
            },
        }
        for row in cells.itertuples()
    ]


def facts(run: Run) -> dict[str, Any]:
    """Return the manifest's circumstances by heading, without those that it lacks."""
    manifest = run.manifest
    planned = manifest.get("cells")
    machine = "Machine that computed the model" if run.is_model else "Machine of the harness and its clients"
    facts = {
        "Run": {
            "started": manifest.get("started_at"),
            "finished": manifest.get("finished_at") or "not finished",
            "cells completed": f"{len(run.cells)} of {planned}" if planned else str(len(run.cells)),
            "load": run.load,
            "harness": manifest.get("harness_version"),
            "commit": manifest.get("git_commit"),
        },
        "Settings": manifest.get("settings"),
        "Parameters of the model": manifest.get("model"),
        machine: manifest.get("machine"),
        "Placement of instances and clients": manifest.get("placement"),
        "Software": manifest.get("versions"),
        **{_instance_name(instance): instance for instance in manifest.get("instances") or []},
    }
    return {heading: fact for heading, fact in facts.items() if fact}


def _warnings(run: Run) -> list[str]:
    """List the warnings of the preflight, a line each, with the version if there are several."""
    by_version = run.manifest.get("findings") or {}
    return [
        f"{version + ', ' if len(by_version) > 1 else ''}{finding['instance']}, {finding['check']}: {finding['text']}"
        for version, findings_ in by_version.items()
        for finding in findings_
        if finding["severity"] == "warning"
    ]


def _commit_sentences(run: Run) -> list[str]:
    """Say how long a single commit took on each instance before the run, beside which WRITELOG is to be seen."""
    by_version = run.manifest.get("findings") or {}
    return [
        f"Before the run, {finding['instance']}{f' of {version}' if len(by_version) > 1 else ''}: {finding['text']}."
        for version, findings_ in by_version.items()
        for finding in findings_
        if finding["check"] == commits.CHECK and finding["severity"] == "information"
    ]


def _instance_name(instance: dict[str, Any]) -> str:
    version = instance.get("lab_version")
    return f"Instance {instance.get('name', '?')}{f', version {version}' if version else ''}"


def _embedded(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"


def _figures(run: Run, paths: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the names and sources of the figures, that which answers the run's question first."""
    drawn = {path.stem: path for path in paths if path.suffix == ".svg"}
    throughputs = [name for name in reversed(drawn) if "throughput" in name]  # that of the most initiators first
    answers = [name for name in ("soak", "gain-by-ratio", *throughputs) if name in drawn]
    if "figure-5-gain" in drawn and not run.cannot_gain:
        answers.insert(0, "figure-5-gain")
    return [(name, _embedded(drawn[name])) for name in dict.fromkeys([*answers[:1], *drawn])]


@dataclass(frozen=True)
class Finding:
    """The sentences below one heading, and the paper's words about it, if any."""

    heading: str
    sentences: tuple[str, ...]
    paper: str = ""


def _about_pool(run: Run) -> list[str]:
    """Say which dialogs the target knew beside those in use."""
    if run.warms_up_used_alone:
        return [USED_ALONE]
    return [] if run.cannot_gain or of_the_trick(run.gain).empty else [ONE_POOL]


def findings(run: Run) -> list[Finding]:
    """Collect all findings in the order of the figures, from tables with a row per cell and block."""
    merged = over_blocks(run)
    findings = [
        Finding("Throughput", (*_throughput(run), *_leaks(run), *([COUNTED] if run.is_counted else []))),
        Finding(
            "The 150 trick",
            (
                *filter(None, [run.cannot_gain]),
                *_said(lambda: [gain_sentence(run), _precision_sentence(run)]),
                *_about_pool(run),
            ),
            f"up to +{GAIN_MAX_PERCENT.value:.0f} %; none at {NO_GAIN_UP_TO.value:.0f} threads in all or fewer, "
            f"noticeable from {GAIN_NOTICEABLE_FROM.value:.0f}",
        ),
        Finding(
            "Pages of the dialogs",
            _said(lambda: [*pages.spread_sentences(merged.page_spread), pages.sequence_sentence(merged.page_spread)]),
            "with every 150th dialog, each used dialog's row has a page of its own",
        ),
        Finding(
            "Page latches",
            _said(lambda: pages.latch_sentences(merged.latch_share, merged.index_waits, is_model=run.is_model)),
            f"above 15 threads in all, page latch contention on {LATCHED_TABLE}, which the 150 trick removes",
        ),
        Finding(
            "Waits",
            (*_said(lambda: instance_activity.wait_sentences(merged.waits, merged.cells)), *_commit_sentences(run)),
            f"initiators {TOP_WAIT['initiator', BASE_DIALOG_RATIO]}, with the 150 trick "
            f"{TOP_WAIT['initiator', TRICK_DIALOG_RATIO]}; target {TOP_WAIT['target', TRICK_DIALOG_RATIO]}",
        ),
        Finding(
            "Schedulers and spinlocks",
            _said(lambda: instance_activity.scheduler_sentences(merged.counters, merged.spinlocks, merged.cells)),
        ),
        Finding("Logs and files", _said(lambda: instance_activity.log_sentences(merged.file_io, merged.cells))),
    ]
    if len(run.versions) > 1:
        findings.append(
            Finding("Versions", tuple(version_sentences(run)), "performance was comparable between 2005 and 2008")
        )
    return findings if run.has_papers_cells else [replace(finding, paper="") for finding in findings]


def invalid_cells(cells: pd.DataFrame) -> list[dict[str, str]]:
    """List the cells that do not count, by state, each with its state and the reason."""
    invalid = cells[~cells.valid].sort_values(["state", "cell_id", "block"])
    return [
        {
            "cell_id": f"{row.cell_id}{f' (block {row.block})' if row.block > 1 else ''}",
            "state": str(row.state),
            "reason": str(row.state_reason),
        }
        for row in invalid.itertuples()
    ]


def measurements(cells: pd.DataFrame) -> str:
    """Count the rows of cells and blocks: `24 cells`, `72 measurements of 24 cells`."""
    number = cells.cell_id.nunique()
    ids = units.counted(number, "cell")
    return ids if len(cells) == number else f"{len(cells):,} measurements of {ids}"


def _throughput(run: Run) -> list[str]:
    findings = [highest_rate(run)]
    cells = run.cells
    states, repeated = cells[~cells.valid].state.value_counts(), cells.block.nunique() > 1
    if saturated := int(cells.saturated.sum()):
        findings.append(
            f"{saturated:,} of {measurements(cells)} have a saturated target: their rate processed is the most that it "
            "sustains, and counts, as does the gain of their pair; their latencies do not."
        )
    if len(states):
        counted_states = listed([f"{number} {state}" for state, number in states.items()])
        verb, subject = ("does", "it is") if states.sum() == 1 else ("do", "they are")
        findings.append(
            f"{states.sum():,} of {measurements(cells)} {verb} not count ({counted_states}): {subject} hollow in the "
            f"figures{' where a cell counts in no block,' * repeated} and listed under “Cells that do not count”."
        )
    return findings


def _leaks(run: Run) -> list[str]:
    """Say how many measurements left conversations behind, and where."""
    leaks = run.leaks
    if leaks.empty:
        return []
    cells_leaking = leaks.drop_duplicates(["cell_id", "block"])
    rows = leaks.groupby(["instance", "state"]).agg(
        conversations=("conversations", "sum"), messages=("messages", "sum")
    )
    places = listed(
        [
            f"{row.conversations:,} on {instance}, most of them {state}, by {row.messages:,} messages"
            for (instance, state), row in rows.iterrows()
        ]
    )
    how_many = f"{len(cells_leaking):,} of {measurements(run.cells)}"
    return [f"{how_many} left conversations behind that nobody ends ({places}): the application fills its database."]


def _precision_sentence(run: Run) -> str:
    """Say which gains never got as precise as the run was asked for; empty if it was not."""
    precision = (run.manifest.get("settings") or {}).get("precision")
    return precision_reached(run.gain, precision) if precision else ""


def _said(tell: Callable[[], list[str]]) -> tuple[str, ...]:
    """Return the sentences, or the reason why there are none."""
    try:
        return tuple(sentence for sentence in tell() if sentence)
    except Missing as reason:
        text = str(reason)
        return (f"{text[:1].upper()}{text[1:]}.",)
