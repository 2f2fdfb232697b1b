"""Cells as a Spark job: a partition is a slice of a group, and its worker posts what became of each cell as it ends.

A worker builds its group's warmed world once and runs each cell on a copy of it, in a process of its own. A cell's raw
records go to the results folder, as in every lab; beside them the worker leaves the line for the journal, which the
driver collects, who alone writes the journal. On a cluster the results folder must be the same folder everywhere.

Nothing is lost but the cells in progress: where a worker or Spark itself dies, the cells that have no line yet are
begun anew, as long as every such round ends some of them.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from pyspark import SparkContext

from harness.failures import MachineFailure
from harness.lab.processes import die_with_parent
from harness.matrix import Cell
from harness.reductions.spark_session import context
from harness.simulation.parameters import Parameters
from harness.simulation.slices import Slice, Turn, slices
from harness.sweep import manifest
from harness.sweep.attempt import CellFailed, Measured
from harness.sweep.journal import Entry

POLL_S = 0.5  # what has ended waits so long to be told; looking takes time from the workers
CANCEL_TIMEOUT_S = 5.0
# The JVM hands out slices and computes nothing. A slice that broke is not tried again behind the journal's back, and
# each gets a fresh worker: the world of the one before is gone with its process.
SPARK = {
    "spark.driver.memory": "512m",  # Spark begins with no less; half of it stays untouched
    "spark.python.daemon.module": "harness.simulation.spark_daemon",
    "spark.python.worker.reuse": "false",
    "spark.task.maxFailures": "1",
}


class JobBroken(MachineFailure):
    """Spark or its workers end before any cell does; the message says what was heard last."""


@dataclass(frozen=True)
class Experiment:
    """What all cells of a run have in common."""

    parameters: Parameters
    seed: int
    settle_s: float  # virtual, as the next
    measure_s: float
    results: Path  # absolute


class Warmed(Protocol):
    """A group's world, linked and warmed."""

    def run(self, cell: Cell, attempt: int) -> Measured:
        """The cell on a copy of this world; CellFailed otherwise. Raw records are written when it returns."""
        ...


OpenGroup = Callable[[Experiment, str, int], AbstractContextManager[Warmed]]


class Post:
    """Lines for the journal on their way from the workers to the driver: a file each, whole or absent."""

    def __init__(self, results: Path) -> None:
        self._folder = results / "ended"

    def put(self, entry: Entry) -> None:
        self._folder.mkdir(exist_ok=True)
        path = self._folder / f"{entry.cell}-a{entry.attempt}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(entry), ensure_ascii=False), encoding="utf-8")
        os.replace(temporary, path)

    def take(self, keep: Callable[[Entry], None]) -> None:
        """Hands over what has come, the earliest end first; a line is gone when `keep` has returned."""
        come = [(Entry(**json.loads(path.read_text(encoding="utf-8"))), path) for path in self._folder.glob("*.json")]
        for entry, path in sorted(come, key=lambda pair: (pair[0].at, pair[0].cell)):
            keep(entry)
            path.unlink()

    def close(self) -> None:
        """Removes the folder; what a killed worker left half written goes with it."""
        for path in self._folder.glob("*.tmp"):
            path.unlink()
        with contextlib.suppress(FileNotFoundError):
            self._folder.rmdir()


def run(
    experiment: Experiment,
    turns: Sequence[Turn],
    *,
    master: str,
    open_group: OpenGroup,
    on_entry: Callable[[Entry], None],
) -> None:
    """One attempt at each turn; `on_entry` hears of each as it ends. JobBroken where Spark cannot go on."""
    post = Post(experiment.results)
    open_turns = {(turn.cell.id, turn.attempt): turn for turn in turns}

    def keep(entry: Entry) -> None:
        if open_turns.pop((entry.cell, entry.attempt), None):
            on_entry(entry)

    while open_turns:
        before = len(open_turns)
        with context(master, SPARK) as spark:
            broken = _round(spark, experiment, list(open_turns.values()), open_group, lambda: post.take(keep))
        if len(open_turns) == before:
            raise JobBroken(f"the cells end without a word: {broken}")
    post.close()


def _round(
    spark: SparkContext,
    experiment: Experiment,
    turns: Sequence[Turn],
    open_group: OpenGroup,
    collect: Callable[[], None],
) -> str:
    """Gives every turn to Spark and collects what comes until it has no more to do; why it broke, or ""."""
    cut = slices(turns, spark.defaultParallelism)
    job: Future[None] = Future()
    threading.Thread(target=_submit, args=(spark, cut, experiment, open_group, job), daemon=True).start()
    try:
        while wait([job], timeout=POLL_S).not_done:
            collect()
    except BaseException:
        with contextlib.suppress(Exception):
            spark.cancelAllJobs()
        wait([job], timeout=CANCEL_TIMEOUT_S)
        raise
    finally:
        collect()
    error = job.exception()
    return _last_word(error) if error else ""


def _submit(
    spark: SparkContext, cut: Sequence[Slice], experiment: Experiment, open_group: OpenGroup, job: Future[None]
) -> None:
    try:
        # A partition a slice, in the order of the slices.
        spark.parallelize(cut, len(cut)).foreach(functools.partial(run_slice, experiment, open_group))
        job.set_result(None)
    except BaseException as error:
        job.set_exception(error)


def run_slice(experiment: Experiment, open_group: OpenGroup, part: Slice) -> None:
    """What a worker does. It ends with its parent, and its children with it."""
    die_with_parent(os.getppid())
    post = Post(experiment.results)
    began = time.perf_counter()
    with open_group(experiment, part.server_version, part.dialog_ratio) as warmed:
        phases_s = {"dialogs": round(time.perf_counter() - began, 4)}
        for turn in part.turns:
            began = time.perf_counter()
            measured, reason = None, ""
            try:
                measured = warmed.run(turn.cell, turn.attempt)
            except CellFailed as failure:
                reason = " ".join(str(failure).split())
            except Exception as error:
                # A fault of ours in one cell. It was in a copy: the world and the other cells are none the worse.
                reason = _fault(error, turn, experiment.results)
            phases_s["cell"] = round(time.perf_counter() - began, 4)
            post.put(_entry(turn, measured, reason, phases_s))
            phases_s = {}


def _fault(error: Exception, turn: Turn, results: Path) -> str:
    """One line that names the file with the traceback."""
    path = results / "tracebacks" / f"{turn.cell.id}-a{turn.attempt}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text} (traceback in {path.relative_to(results)})"


def _entry(turn: Turn, measured: Measured | None, reason: str, phases_s: dict[str, float]) -> Entry:
    return Entry(
        turn.cell.id,
        turn.attempt,
        "completed" if measured else "failed",
        reason,
        manifest.now(),
        turn.attempt,  # a number apart from other cells' is not needed: no two share a world
        sent_per_s=round(measured.sent_per_s, 1) if measured else 0.0,
        processed_per_s=round(measured.processed_per_s, 1) if measured else 0.0,
        phases_s=phases_s,
    )


def _last_word(error: BaseException) -> str:
    """Of a Python error in a worker its own last line, of any other the first."""
    try:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    except OSError:  # the JVM, which would know, is gone
        return "Spark's JVM ended"
    if "Traceback (most recent call last):" in lines:
        lines = lines[lines.index("Traceback (most recent call last):") :]
        java = [place for place, line in enumerate(lines) if line.startswith("at ")]
        return lines[java[0] - 1] if java else lines[-1]
    return lines[0] if lines else type(error).__name__
