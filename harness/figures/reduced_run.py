"""A run's manifest and reduced tables, and the lines that say where its numbers come from."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from harness import claims
from harness.claims.judgement import Tables, is_saturated, is_valid, of_the_paper
from harness.definitions import lab_kinds, units
from harness.definitions.inference import BLOCKS_MIN
from harness.definitions.lab_kinds import LabKind
from harness.definitions.whitepaper import INITIATOR_SCHEDULERS, PERMUTATIONS_A_VERSION
from harness.files import certificate, manifest_file
from harness.files.message_bodies import Body
from harness.files.records import ResultsError
from harness.files.workload_file import PAPER
from harness.lab.instances import SIDES
from harness.output.reporting import Reporter, duration

TABLES = ("cells", "seconds", "gain", "waits")
# Not every instance provides these, and older versions of the harness wrote none of them.
OPTIONAL_TABLES = tuple("bins page_spread latch_share index_waits spinlocks file_io counters leaks techniques".split())  # noqa: SIM905
# The newest columns of the reductions: tables without them were written by an older harness.
LATEST_COLUMNS = {
    "cells": {"block", "state", "rate_per_s", "until_drained_per_s"},
    "seconds": {"block"},
    "gain": {"block", "dialog_ratio", "valid", "until_drained_factor"},
    "waits": {"block"},
}

LATENCIES = ("latency_us_", "end_to_end_us_")  # the columns of cells begin so
SHARED_WORDS = {"processors": "processors", "disk": "a disk"}
COUNTED = (
    "Messages were counted, not matched one by one: those that were sent and waited in no queue were processed. That a "
    "single message was lost or came twice would not be seen; end-to-end latency, messages a RECEIVE and order are not "
    "measured."
)


class Missing(Exception):
    """A figure has no data; the message says which data are missing."""


@dataclass(frozen=True, kw_only=True)
class Run(Tables):
    """The content of a results folder that figures and claims need."""

    folder: Path
    manifest: Mapping[str, Any]
    bins: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def run_id(self) -> str:
        return str(self.manifest.get("run_id") or self.folder.name)

    @property
    def lab(self) -> str:
        return str(self.manifest.get("lab", "unknown"))

    @property
    def kind(self) -> LabKind:
        """The kind of its lab."""
        return lab_kinds.named(self.lab)

    @property
    def load_model(self) -> str:
        """`closed loop`, or the open loop with its rate."""
        return str(self.manifest.get("load_model", "load model unknown"))

    @property
    def workload(self) -> str:
        """The name of the workload: the paper's in a run of a model, and of an older harness."""
        return str(self._workload.get("name", PAPER))

    @property
    def about(self) -> str:
        """What the workload says of itself."""
        return str(self._workload.get("about", ""))

    @property
    def _workload(self) -> Mapping[str, Any]:
        return (self.manifest.get("settings") or {}).get("workload") or {}

    @property
    def is_counted(self) -> bool:
        return is_counted(self.manifest)

    @property
    def payload_is_mean(self) -> bool:
        """Whether messages have sizes of their own, so that the payload of every cell is their mean."""
        return self._body.size is not None

    @property
    def _body(self) -> Body:
        return Body.model_validate(self._workload.get("body") or {})

    @property
    def load(self) -> str:
        """The load model, and the workload with its bodies unless it is the paper's."""
        if self.workload == PAPER:
            return self.load_model
        bodies = str(self._body)
        return f"{self.load_model} · workload {self.workload}{f' ({bodies})' if bodies else ''}"

    @property
    def is_model(self) -> bool:
        """Whether the numbers were computed in virtual time, not measured."""
        return self.kind.is_model

    @property
    def cannot_gain(self) -> str:
        """Why the 150 trick can gain nothing on the run's lab, in a sentence; empty where it can."""
        return self.kind.words.cannot_gain

    @property
    def hardware(self) -> str:
        """The name of the modelled hardware; empty if the run is not a model's."""
        return Path(str((self.manifest.get("settings") or {}).get("hardware", ""))).stem

    @property
    def matrix(self) -> str:
        """The name of the matrix; empty for a run of an older harness."""
        stored = (self.manifest.get("settings") or {}).get("matrix") or {}
        return str(stored.get("name", ""))

    @property
    def has_papers_cells(self) -> bool:
        """Whether any cell is one of the paper's matrix and workload, so that the paper's numbers belong beside it."""
        return not of_the_paper(self.cells).empty

    @property
    def is_whole(self) -> bool:
        """Whether the run was to have all cells of the paper's matrix, in each of its versions."""
        settings, cells = self.manifest.get("settings") or {}, self.cells.drop_duplicates("cell_id")
        planned = int(self.manifest.get("cells") or 0) // int(settings.get("repeats") or 1) or len(cells)
        other_cells = len(cells) - len(of_the_paper(cells))
        return planned - other_cells >= PERMUTATIONS_A_VERSION * len(settings.get("server_versions") or self.versions)

    @property
    def shared(self) -> str:
        """What the instances share: `the instances share processors and a disk`; empty if nothing, or unknown."""
        placed = (self.manifest.get("placement") or {}).values()
        kinds = {kind for placement in placed for kind in placement.get("shared") or {}}
        words_shown = [words for kind, words in SHARED_WORDS.items() if kind in kinds]
        return f"the instances share {listed(words_shown)}" if words_shown else ""

    @property
    def has_intervals(self) -> bool:
        """Whether its cells were measured often enough for an interval."""
        return int(self.cells.block.nunique()) >= BLOCKS_MIN

    @property
    def warms_up_used_alone(self) -> bool:
        """Whether only dialogs that a cell uses were warmed up. On servers all were before there was a choice."""
        before_the_choice = None if self.is_model else "all"
        return not self.kind.warms_up_all((self.manifest.get("settings") or {}).get("warm_up", before_the_choice))

    @property
    def few_schedulers(self) -> str:
        """That an initiator of SQL Server has fewer schedulers than the paper's; empty if not, or unknown."""
        facts = [
            row.get("fingerprint") or {} for row in self.manifest.get("instances") or () if row["name"] != SIDES[0][0]
        ]
        counts = [int((fact.get("system") or {}).get("scheduler_count") or INITIATOR_SCHEDULERS) for fact in facts]
        least = min(counts, default=INITIATOR_SCHEDULERS)
        if not self.kind.can.is_measurement or least >= INITIATOR_SCHEDULERS:
            return ""
        return f"an initiator has {units.counted(least, 'scheduler')}, and the paper's had {INITIATOR_SCHEDULERS}"

    @property
    def versions(self) -> list[str]:
        return sorted(self.cells.server_version.unique())


def read(folder: Path) -> Run:
    """Read the run in `folder`; raises ResultsError if it has no manifest or was not reduced."""
    manifest = manifest_file.read(folder)
    tables = {name: _table(folder, name) for name in (*TABLES, *OPTIONAL_TABLES)}
    if tables["cells"].empty:
        raise ResultsError(f"{folder / 'reduced'} holds no completed cell: nothing to draw")
    cells = tables["cells"]
    # Figures treat cells and pairs of cells alike, and a pair has no state of its own.
    cells["valid"], cells["saturated"] = is_valid(cells), is_saturated(cells)
    # A saturated cell counts for its rate processed alone: how long its messages waited depends on its length.
    cells.loc[cells.saturated, [name for name in cells if name.startswith(LATENCIES)]] = np.nan
    run = Run(folder=folder, manifest=manifest, **tables)
    for name, table in tables.items():
        table["workload"] = run.workload  # by which `of_the_paper` chooses
        if name != "techniques":  # whose scenario has a load of its own
            table["payload_is_mean"] = run.payload_is_mean  # as `parts.payload_name` says it
    return run


def judge(run: Run, progress: Reporter | None = None) -> list[claims.Judgement]:
    """Judge the paper's claims by a run; `progress` counts them."""
    return claims.evaluate(
        run,
        lab=run.lab,
        hardware=run.hardware,
        load_model=run.load_model,
        is_whole=run.is_whole,
        shared=run.shared,
        few_schedulers=run.few_schedulers,
        progress=progress,
    )


def is_counted(manifest: Mapping[str, Any]) -> bool:
    """Return whether the messages of the run's workload are counted, not matched one by one."""
    workload = (manifest.get("settings") or {}).get("workload") or {}
    return (workload.get("accounting") or {}).get("by") == "count"


def is_techniques_run(folder: Path) -> bool:
    """Return whether a folder is a run of techniques, not a run of cells with an added table of techniques."""
    return "scenario" in manifest_file.read(folder)


def _table(folder: Path, name: str) -> pd.DataFrame:
    path = folder / "reduced" / f"{name}.parquet"
    reduce = f"run `harness reduce {shlex.quote(str(folder))}`"
    try:
        table = pd.read_parquet(path)
    except FileNotFoundError:
        if name in OPTIONAL_TABLES:
            return pd.DataFrame()
        raise ResultsError(f"{folder} has no reduced/{name}.parquet: {reduce} first") from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read ({error}): {reduce} again") from None
    if missing := LATEST_COLUMNS.get(name, set()) - set(table.columns):
        raise ResultsError(f"{path} lacks {', '.join(sorted(missing))}: {reduce} again")
    return table


def read_steps(results: Path, table: Path, columns: Sequence[str], verb: str) -> pd.DataFrame:
    """Read the table of a run of steps, such as those of `harness rates`; raises ResultsError."""
    path = results / table
    try:
        steps = pd.read_parquet(path)
    except FileNotFoundError:
        raise ResultsError(f"{path} is missing: no step of this run was completed") from None
    except (OSError, ValueError) as error:
        raise ResultsError(f"{path} cannot be read: {error}") from None
    if missing := [name for name in columns if name not in steps]:
        raise ResultsError(f"{path} lacks {', '.join(missing)}: run `harness {verb}` again")
    return steps


def is_rates_run(folder: Path) -> bool:
    """Return whether a folder is a run of `harness rates`."""
    return "rates" in manifest_file.read(folder)


def listed(words: Sequence[str]) -> str:
    """Join words: `a`, `a and b`, `a, b and c`."""
    return " and ".join([*([", ".join(words[:-1])] if len(words) > 1 else []), *words[-1:]])


def origin(lab: str, load: str, versions: Sequence[str]) -> str:
    """Say whose numbers are shown, under which load: `SQL Server 2022 and 2025 · closed loop`."""
    whose = lab_kinds.named(lab).words.origin
    return f"{whose.format(versions=listed(versions))} · {load}"


def footer(run: Run, *, counted: str = "") -> list[str]:
    """Say in three lines where a figure comes from: lab, run, machine; `counted` counts rows other than cells."""
    manifest, machine = run.manifest, run.manifest.get("machine") or {}
    commit = str(manifest.get("git_commit") or "")
    tree = "" if not commit else f" ({commit[:7]}{', changed' if commit.endswith('-dirty') else ''})"
    words = run.kind.words.versions
    versions = f"{words if len(run.versions) > 1 else words.removesuffix('s')} {listed(run.versions)}"
    identity = (
        f"run {run.run_id}",
        counted or f"{_counted(run.cells)}{_sharing(run)}",
        f"{_measured(run.cells)}{' of virtual time' * run.is_model} measured {'each' if counted else 'a cell'}",
        versions,
        f"harness {manifest.get('harness_version', '?')}{tree}",
        _when(manifest),
    )
    computer = [str(machine[key]) for key in ("processor", "distribution") if machine.get(key)]
    if machine.get("processors"):
        computer.insert(1, units.counted(int(machine["processors"]), "processor"))
    if machine.get("memory_mib"):
        computer.insert(2, f"{machine['memory_mib'] / 1024:.0f} GiB")
    if run.kind.can.is_measurement and computer:
        computer[0] = f"clients on {computer[0]}"
    if run.is_model:
        computer[:1] = [f"modelled hardware: {run.hardware or '?'}", *(f"computed on {name}" for name in computer[:1])]
    twins = certificate.find(manifest)
    lab = "; ".join([run.kind.words.footer, *(_builds(manifest) if run.kind.can.is_measurement else [])])
    return [
        lab[:1].upper() + lab[1:],
        " · ".join(identity),
        " · ".join(filter(None, [run.load, *computer, run.shared, twins.words if twins else ""])),
    ]


def _counted(cells: pd.DataFrame) -> str:
    """Count cells, and blocks if there are several: `528 cells in up to 3 blocks`."""
    number = cells.cell_id.nunique()
    ids = units.counted(number, "cell")
    if cells.block.nunique() == 1:
        return ids
    blocks = cells.groupby("cell_id").block.nunique()
    return f"{ids} in {'up to ' if blocks.min() < blocks.max() else ''}{blocks.max()} blocks"


def _sharing(run: Run) -> str:
    """Say where blocks share instances and dialogs, so that no interval has what differs from start to start."""
    is_warm = (run.manifest.get("settings") or {}).get("blocks", "warm") == "warm" and not run.is_model
    return " on the same instances" if is_warm and run.cells.block.nunique() > 1 else ""


def clocks(manifest: Mapping[str, Any]) -> str:
    """Say how far the target's clock and the harness's may differ, as the preflight measured it, in a sentence.

    Empty where both are one clock, or where it was not measured.
    """
    if not lab_kinds.named(str(manifest.get("lab"))).can.is_measurement:
        return ""
    measured = {
        finding["text"]
        for findings in (manifest.get("findings") or {}).values()
        for finding in findings
        if (finding["instance"], finding["check"]) == ("target", "clock")
    }
    return f"At the target, {'; '.join(sorted(measured))}." if measured else ""


def _builds(manifest: Mapping[str, Any]) -> list[str]:
    """List the builds of the targets: `target 16.0.4135.4 Developer Edition (64-bit)`."""
    targets = [instance for instance in manifest.get("instances") or [] if instance.get("name") == "target"]
    builds = [f"target {target.get('product_version', '?')} {target.get('edition', '')}".strip() for target in targets]
    return list(dict.fromkeys(builds))


def _measured(cells: pd.DataFrame) -> str:
    shortest, longest = cells.measured_s.min(), cells.measured_s.max()
    return f"{shortest:.3g} s" if longest - shortest < 0.1 else f"{shortest:.3g} to {longest:.3g} s"


def _when(manifest: Mapping[str, Any]) -> str:
    try:
        started = datetime.fromisoformat(str(manifest.get("started_at")))
    except ValueError:
        return "date unknown"
    day = f"{started:%Y-%m-%d %H:%M} UTC"
    try:
        finished = datetime.fromisoformat(str(manifest.get("finished_at")))
    except ValueError:
        return f"{day}, not finished"
    return f"{day}, took {duration((finished - started).total_seconds())}"
