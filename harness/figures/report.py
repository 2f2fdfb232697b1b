"""`report.html`: one self-contained page with a run's findings, claims, figures and circumstances."""

from __future__ import annotations

import base64
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader

from harness.claims import Judgement, counted
from harness.doctor.instance_settings import LICENCE
from harness.figures.findings import BEHIND, findings, headlines
from harness.figures.reduced_run import LAB_WORDS, FigureError, Run, footer, origin
from harness.whitepaper import PUBLISHED, TITLE

NAME = "report.html"


def write(run: Run, figures: Sequence[Path], judged: Sequence[Judgement]) -> Path:
    """Write the page into the run's folder, whole or not at all.

    `figures` are the files that were drawn, `judged` the judgements of the paper's claims.
    """
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    rows = headlines(run)
    page = environment.get_template("report.html").render(
        origin=origin(run.lab, run.versions),
        run_id=run.run_id,
        lab=run.lab,
        warning=LAB_WORDS.get(run.lab, f"{run.lab} lab"),
        licence=LICENCE if run.lab == "sqlserver" else "",
        warnings=_warnings(run),
        paper=f"{TITLE}, {PUBLISHED}",
        findings=findings(run),
        headlines=rows,
        judged=judged,
        verdicts=counted(judged),
        several_versions=len(run.versions) > 1,
        behind=any(BEHIND in peak.text for row in rows for peak in (row.peak_trick, row.peak_base)),
        figures=[(path.stem, _embedded(path)) for path in figures if path.suffix == ".svg"],
        footer=footer(run),
        facts=facts(run),
    )
    path = run.folder / NAME
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_text(page, encoding="utf-8")
        os.replace(temporary, path)
    except OSError as error:
        raise FigureError(f"{path} cannot be written: {error.strerror}") from None
    return path


def facts(run: Run) -> dict[str, Any]:
    """Return the manifest's circumstances by heading, without those that it lacks."""
    manifest = run.manifest
    planned = manifest.get("cells")
    told = {
        "Run": {
            "started": manifest.get("started_at"),
            "finished": manifest.get("finished_at") or "not finished",
            "cells completed": f"{len(run.cells)} of {planned}" if planned else str(len(run.cells)),
            "load": manifest.get("load_model"),
            "harness": manifest.get("harness_version"),
            "commit": manifest.get("git_commit"),
        },
        "Settings": manifest.get("settings"),
        "Parameters of the model": manifest.get("model"),
        "Machine that computed the model" if run.is_model else "Machine of the harness and its clients": manifest.get(
            "machine"
        ),
        "Software": manifest.get("versions"),
        **{_instance_name(instance): instance for instance in manifest.get("instances") or []},
    }
    return {heading: fact for heading, fact in told.items() if fact}


def _warnings(run: Run) -> list[str]:
    """List the warnings of the preflight, a line each, with the version if there are several."""
    told = run.manifest.get("findings") or {}
    return [
        f"{version + ', ' if len(told) > 1 else ''}{finding['instance']}, {finding['check']}: {finding['text']}"
        for version, findings_ in told.items()
        for finding in findings_
        if finding["severity"] == "warning"
    ]


def _instance_name(instance: dict[str, Any]) -> str:
    version = instance.get("lab_version")
    return f"Instance {instance.get('name', '?')}{f', version {version}' if version else ''}"


def _embedded(path: Path) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"
