"""A run under way: its folder is this process's alone, and an early end says what was measured and how to go on."""

import contextlib
import errno
import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.definitions.matrix import label
from harness.definitions.units import counted
from harness.failures import MachineFailure, UsageFailure
from harness.files import journal
from harness.files.journal import Entry, Journal
from harness.files.records import NotWritable
from harness.lab import interruption
from harness.machine import folder_lock
from harness.output.reporting import Reporter
from harness.run import run_folder
from harness.run.attempt import Measured
from harness.run.engine import Executor, Sweep, Swept

_UNITS = {"rates": "step", "techniques": "run"}  # by verb; else cells
CELLS_SHOWN = 10  # of a run whose folder is gone
_FULL = {errno.ENOSPC: "the disk is full: free some space", errno.EDQUOT: "the disk quota is used up: free some space"}


@dataclass
class Outcome:
    """How a run ended."""

    results: Path
    total: int
    completed: int
    failed: int
    reason: str = ""
    measured: Measured | None = None  # of the last completed cell


class InUse(MachineFailure):
    """Another process writes into the run."""


@contextlib.contextmanager
def locked(results: Path) -> Iterator[None]:
    """Let no other process write into a run's folder during the block; raises InUse if one does, and NotWritable."""
    try:
        lock = folder_lock.take(results)
    except folder_lock.Held as holder:
        raise InUse(f"{results} is in use by process {holder}: wait until it ends, or end it") from None
    except OSError as error:
        raise NotWritable(f"{results} cannot be written: {error.strerror}") from None
    with lock:
        yield


@contextlib.contextmanager
def under_way(results: Path) -> Iterator[Journal]:
    """Let the block, in the main thread, add cells to a run, and give it the journal."""
    with locked(results):
        run_journal = Journal(results / journal.NAME)
        with resumable(results, run_journal), interruption.noted():
            yield run_journal


@contextlib.contextmanager
def resumable(results: Path, run_journal: Journal) -> Iterator[None]:
    """Add to a KeyboardInterrupt or MachineFailure of the block what was measured and how to go on.

    The OSError of a full disk, or of a folder that has vanished, becomes NotWritable.
    """
    manifest = run_folder.read_manifest(results)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(so_far(results, manifest, run_journal.entries)) from None
    except (OSError, MachineFailure, UsageFailure) as error:
        if not run_journal.path.exists():
            raise NotWritable(f"{results} is gone, and with it {_lost(manifest, run_journal.entries)}") from None
        if isinstance(error, OSError):
            reason = _FULL.get(error.errno or 0) or error.strerror or error
            raise NotWritable(f"{results}: {reason}; {so_far(results, manifest, run_journal.entries)}") from None
        if isinstance(error, MachineFailure) and run_journal.completed():
            error.args = (f"{error}; {so_far(results, manifest, run_journal.entries)}",)
        raise


def run(
    results: Path,
    items: Sequence[Swept],
    reporter: Reporter,
    executor: Callable[[Journal], Executor[Swept]],
    *,
    stop_rule: Callable[[Journal], Callable[[Swept], bool]] = lambda run_journal: lambda item: True,
    evaluate: Callable[[], None] = lambda: None,
    together: Callable[[Swept], Hashable] | None = None,
) -> Outcome:
    """Run the items that are not in the run's journal yet, say in the manifest that all had their turn, and evaluate.

    If the run is interrupted or fails, what was completed is evaluated. Items of the same `together` that follow one
    another are measured again after the last of them, as `run.engine` does where they are in doubt.
    """
    unit = _unit(run_folder.read_manifest(results))
    with under_way(results) as run_journal:
        sweep = Sweep(executor(run_journal), run_journal, reporter, results, unit=unit, together=together)
        try:
            tally = sweep.run(items, stop_rule(run_journal))
        except BaseException:
            # Report what ended the run, and not that the disk has no room for a table either.
            with contextlib.suppress(OSError, MachineFailure, UsageFailure):
                evaluate()
            raise
        run_folder.finish(results)
        evaluate()
    needed = len(items) - tally.not_needed
    return Outcome(results, needed, tally.completed, tally.failed, tally.last_reason, tally.last)


def so_far(results: Path, manifest: Mapping[str, Any], entries: Sequence[Entry]) -> str:
    """Say how much of a run is measured, and how to measure the rest."""
    how = f"harness {run_folder.verb(manifest)} --resume {shlex.quote(str(results))}"
    return f"measured: {_measured(manifest, entries)}; go on with: {how}"


def _lost(manifest: Mapping[str, Any], entries: Sequence[Entry]) -> str:
    last = {label(entry.cell, entry.block): entry.processed_per_s for entry in entries if entry.outcome == "completed"}
    rates = [f"{name} {rate:,.0f} processed/s" for name, rate in list(last.items())[:CELLS_SHOWN]]
    more = [f"and {len(last) - CELLS_SHOWN} more"] if len(last) > CELLS_SHOWN else []
    return f"what was measured: {': '.join(filter(None, [_measured(manifest, entries), ', '.join([*rates, *more])]))}"


def _measured(manifest: Mapping[str, Any], entries: Sequence[Entry]) -> str:
    completed = {(entry.cell, entry.block) for entry in entries if entry.outcome == "completed"}
    return f"{len(completed)} of {counted(manifest['cells'], _unit(manifest))}"


def _unit(manifest: Mapping[str, Any]) -> str:
    return _UNITS.get(run_folder.verb(manifest), "cell")
