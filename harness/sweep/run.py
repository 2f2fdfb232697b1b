"""A run from its settings to its folder: preflight, manifest, sweep; new or resumed, the whole matrix or one cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from harness import doctor
from harness.failures import UsageFailure
from harness.lab import compose, drivers, interruption
from harness.lab.connection_info import first_line
from harness.lab.instances import Lab, connections, in_parallel
from harness.lab.opening import Topology
from harness.lab.selection import Selection, select_lab
from harness.matrix import DIALOG_RATIOS, INITIATORS, PAYLOADS_BYTES, THREADS, Cell, all_cells, select
from harness.observe.fingerprint import fingerprint
from harness.settings import Settings
from harness.sweep import folder, journal, manifest, planning
from harness.sweep.reporting import Bar, PlainLines, Reporter, Silent, duration
from harness.sweep.stand import LabStand
from harness.sweep.sweep import Sweep, Tally

EMBEDDED_EDITION = "Embedded Service Broker"  # SERVERPROPERTY('Edition') of the servers in this repository
_DEFAULTS = {"initiators": 1, "threads": 10, "dialog_ratio": 150, "payload_bytes": 100}


class UnknownName(UsageFailure):
    """An axis value that does not exist; names the nearest."""


@dataclass
class Outcome:
    """What a run came to."""

    results: Path
    total: int
    completed: int
    failed: int
    reason: str = ""
    lines: list[str] = field(default_factory=list)


def sweep(
    options: Mapping[str, Any],
    *,
    settings_file: Path | None,
    resume: Path | None,
    announce: Callable[[str], None],
    confirm: Callable[[str], bool],
    console_is_terminal: bool,
) -> Outcome | None:
    """The cells that the options select, or those that a run lacks; None where a long sweep was not confirmed."""
    selection = (
        _selection_of(resume, options, settings_file) if resume else select_lab(options, settings_file=settings_file)
    )
    settings = selection.settings
    announce(first_line(selection))
    cells = planning.chosen_cells(settings, initiators_max=selection.topology.initiators_max)
    length_s = planning.estimate_s(settings, cells)
    plan = f"{len(cells)} cells, about {duration(length_s)}"
    if length_s > planning.ASK_FROM_S and not confirm(f"{plan}: begin?"):
        return None
    results = _open_results(settings, resume, cells)
    announce(f"{plan}; results in {results}")
    console = Console()
    bar = Bar(console) if console_is_terminal else None
    with bar or nullcontext():
        tally = _run(selection, results, cells, bar or PlainLines(console))
    return Outcome(results, len(cells), tally.completed, tally.failed, tally.last_reason)


def single(
    cell_id: str | None,
    given_axes: Mapping[str, Any],
    options: Mapping[str, Any],
    *,
    settings_file: Path | None,
    announce: Callable[[str], None],
) -> Outcome:
    """One cell, and its numbers as lines."""
    selection = select_lab(options, settings_file=settings_file)
    announce(first_line(selection))
    cell = _named_cell(cell_id, given_axes, selection.topology)
    selection = replace(selection, settings=selection.settings.model_copy(update={"cells": (cell.id,)}))
    announce(f"cell: {cell.id}")
    results = _open_results(selection.settings, None, [cell])
    tally = _run(selection, results, [cell], _Notes(announce))
    outcome = Outcome(results, 1, tally.completed, tally.failed, tally.last_reason)
    if tally.last is not None:
        outcome.lines = [
            f"sent:      {tally.last.sent_per_s:,.0f} messages/s",
            f"processed: {tally.last.processed_per_s:,.0f} messages/s",
            "latency of a send (closed loop): "
            + ", ".join(f"{name} {value / 1000:.2f} ms" for name, value in tally.last.latencies_us.items()),
            f"books: {tally.last.sent:,} messages sent and processed, each once and in order",
        ]
    return outcome


def axes(given: Mapping[str, Any], topology: Topology) -> Cell:
    """A cell of the matrix from axis values as texts, defaults for those not given; else UnknownName."""
    valid_values: Mapping[str, Sequence[Any]] = {
        "initiators": INITIATORS[: topology.initiators_max],
        "threads": THREADS,
        "dialog_ratio": DIALOG_RATIOS,
        "payload_bytes": PAYLOADS_BYTES,
        "server_version": topology.versions,
    }
    values: dict[str, Any] = {"server_version": topology.sweep_versions[-1], **_DEFAULTS}
    for name, valid in valid_values.items():
        text = given.get(name)
        if text is None:
            continue
        by_text = {str(value): value for value in valid}
        if str(text) not in by_text:
            raise UnknownName(f"{name.replace('_', ' ')} {text!r} is not in the matrix{_nearest_value(text, valid)}")
        values[name] = by_text[str(text)]
    return Cell(**values)


def _nearest_value(text: object, valid: Sequence[Any]) -> str:
    try:
        number = float(str(text))
    except ValueError:
        return f"; valid: {', '.join(map(str, valid))}"
    close = sorted(valid, key=lambda value: abs(float(value) - number))[:2]
    return f"; nearest: {', '.join(str(value) for value in sorted(close))}; valid: {', '.join(map(str, valid))}"


def _named_cell(cell_id: str | None, given_axes: Mapping[str, Any], topology: Topology) -> Cell:
    if cell_id is None:
        return axes(given_axes, topology)
    if any(value is not None for value in given_axes.values()):
        raise UnknownName("give a cell id or axes, not both")
    found = select(all_cells(topology.versions, initiators_max=topology.initiators_max), [cell_id])
    if len(found) > 1:
        raise UnknownName(f"{cell_id!r} is {len(found)} cells, from {found[0].id} to {found[-1].id}: run takes one")
    return found[0]


def _selection_of(resume: Path, options: Mapping[str, Any], settings_file: Path | None) -> Selection:
    """The settings of the run to be resumed; those given now must not differ."""
    stored = folder.stored_settings(resume, Settings)
    selection = select_lab(options, settings_file=settings_file, stored=stored)
    folder.require_same(resume, stored, selection.settings)
    return selection


def _open_results(settings: Settings, resume: Path | None, cells: Sequence[Cell]) -> Path:
    """The run's folder with its manifest; everything that can be checked before anything starts is checked here."""
    drivers.check_manager()
    driver = drivers.choose(settings.driver)
    if settings.lab == "sqlserver" and settings.lab_file is None:
        compose.check()

    def circumstances(run_id: str) -> dict[str, Any]:
        return manifest.new(run_id, settings, cells=len(cells), driver=driver)

    return folder.reopen(resume, circumstances) if resume else folder.create(settings, circumstances)


def _run(selection: Selection, results: Path, cells: Sequence[Cell], reporter: Reporter) -> Tally:
    examined: set[str] = set()

    def preflight(lab: Lab) -> None:
        if lab.version not in examined:
            examined.add(lab.version)
            of_version = [cell for cell in cells if cell.server_version == lab.version]
            examine(lab, of_version, selection.settings, results, reporter.note, first=len(examined) == 1)

    with interruption.noted() as watch:
        stand = LabStand(
            selection.settings,
            selection.topology,
            results,
            cells,
            on_rate=reporter.rate,
            on_lab=preflight,
            on_note=reporter.note,
            watch=watch,
        )
        tally = Sweep(stand, journal.Journal(results / journal.NAME), reporter, results, watch=watch).run(cells)
    folder.finish(results)
    return tally


def examine(
    lab: Lab, cells: Sequence[Cell], settings: Settings, results: Path, note: Callable[[str], None], *, first: bool
) -> None:
    """Findings of the doctor and fingerprints of the instances go into the manifest; an error ends the run here."""
    findings = doctor.examine(lab, cells=cells, settings=settings)
    with connections(lab.instances) as opened:
        fingerprints = in_parallel(fingerprint, opened)
    current = manifest.read(results)
    known = {(row["lab_version"], row["name"]) for row in current["instances"]}
    for instance, identity, taken in zip(lab.instances, lab.identities, fingerprints, strict=True):
        if (lab.version, instance.name) not in known:
            row = {key: str(value) for key, value in identity.items() if key != "service_broker_guid"}
            current["instances"].append(
                {"name": instance.name, "lab_version": lab.version, **row, "fingerprint": taken}
            )
    if any(EMBEDDED_EDITION in str(identity["edition"]) for identity in lab.identities):
        current["lab"] = "embedded"  # whatever the servers were called, their numbers are not SQL Server's
    current["findings"][lab.version] = [asdict(finding) for finding in findings]
    manifest.write(results, current)
    for finding in findings:
        if finding.severity == "warning" or (first and finding.check == "licence"):
            note(str(finding))
    doctor.raise_errors(findings)


class _Notes(Silent):
    """Of a single cell, only what goes wrong."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce

    def note(self, text: str) -> None:
        self._announce(text)
