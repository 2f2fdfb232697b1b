"""Compute cells as a Spark job: each partition is a slice, whose worker reports every cell as it ends.

The cells of one server version, a group, run in forks of one warmed world, and building a world costs
as much as many cells. So a group is cut into no more slices than the workers need to end at about the same time.

A worker builds the warmed world of its slice once and runs each cell in a fork of it. Raw records go to the results
folder, as in every lab. There the worker also leaves the journal entry of each cell, because only the driver writes the
journal. On a cluster the results folder must be the same folder everywhere; what workers import travels with the job
(`packages`).

If a worker or Spark itself dies, only the cells in progress are lost. Cells without an entry are started again, as long
as every such round completes some.

Run as a program, this module is the process from which Spark forks its Python workers: it imports once what every slice
needs. Spark's own daemon imports nothing before it forks, since threads do not survive a fork. Nothing that is imported
here depends on a thread that an import starts.
"""

import contextlib
import functools
import heapq
import itertools
import json
import math
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark import SparkContext

from harness.claims.gain import BLOCKS_OF_PRECISION
from harness.definitions.matrix import Cell, Visit, label
from harness.definitions.whitepaper import BASE_DIALOG_RATIO, GAIN_MAX_PERCENT, PEAK_THROUGHPUT
from harness.failures import MachineFailure
from harness.files import journal
from harness.files.journal import Entry
from harness.files.records import written_whole
from harness.files.settings import SimulationSettings
from harness.lab.processes import die_with_parent
from harness.output.reporting import Reporter, TimeLeftByWork
from harness.reductions.spark_failures import NOT_THERE, remedy, why_broken
from harness.reductions.spark_session import context
from harness.run.engine import Attempted, Due, describe, entry_of, is_in_doubt
from harness.run.in_process import InProcess, Testbed
from harness.run.phases import Phases
from harness.simulation.parameters import Parameters
from harness.simulation.simulated_cell import WorldSize
from harness.simulation.virtual_testbed import VirtualTestbed

POLL_S = 0.5  # more often would take time from the workers
CANCEL_TIMEOUT_S = 5.0
# Spark must not repeat a slice that broke, because the journal counts attempts. Each slice gets a new worker, so that
# the memory of the previous world is freed with its process.
SPARK = {
    "spark.python.daemon.module": "harness.simulation.spark_job",
    "spark.python.worker.reuse": "false",
    "spark.task.maxFailures": "1",
}

# Expected rates of cells, used for balance only: each thread adds CALLS_PER_S, up to the paper's peaks.
CALLS_PER_S = 180.0
PEAK_PER_S = PEAK_THROUGHPUT[3].value / 3
BASE_PEAK_PER_S = PEAK_PER_S / (1 + GAIN_MAX_PERCENT.value / 100)
# Processor time, as measured on one machine.
MESSAGE_S = 300e-6
CELL_S = 0.2
DIALOG_S = 40e-6
GROUP_S = 0.6
FRUITLESS_MAX = 2  # a worker may be killed before the first cell of a round has ended
FINEST = 4  # slices a worker


class JobBroken(MachineFailure):
    """Spark or its workers failed twice before any cell ended; the message says why and what to do."""


@dataclass(frozen=True)
class Experiment:
    """The circumstances that all cells of a run share."""

    settings: SimulationSettings
    hardware: Parameters
    results: Path  # absolute
    world: WorldSize  # for the whole matrix, so that the selection of cells does not change a world


MakeTestbed = Callable[[Experiment], Testbed[Visit]]


def virtual_testbed(experiment: Experiment) -> VirtualTestbed:
    """Implement `MakeTestbed`."""
    return VirtualTestbed(experiment.settings, experiment.hardware, experiment.results, size=experiment.world)


@dataclass(frozen=True)
class PlannedAttempt:
    """A cell in a block, the number of the attempt, and its expected processor time."""

    visit: Visit
    attempt: int
    work_s: float

    @property
    def cell(self) -> Cell:
        return self.visit.cell


@dataclass(frozen=True)
class Slice:
    """Attempts of one group for one worker, the longest first."""

    server_version: str
    attempts: tuple[PlannedAttempt, ...]
    world: WorldSize

    @property
    def work_s(self) -> float:
        return group_work_s(self.world) + sum(attempt.work_s for attempt in self.attempts)


def cell_work_s(cell: Cell, virtual_s: float) -> float:
    """Expected processor time of a cell of some virtual time."""
    peak = BASE_PEAK_PER_S if cell.dialog_ratio == BASE_DIALOG_RATIO else PEAK_PER_S
    messages_per_s = cell.initiators * min(cell.threads * CALLS_PER_S, peak)
    return CELL_S + virtual_s * messages_per_s * MESSAGE_S


def group_work_s(world: WorldSize) -> float:
    """Expected processor time of building a group's warmed world."""
    return GROUP_S + world.initiators * world.dialogs * DIALOG_S


def slices(attempts: Sequence[PlannedAttempt], workers: int, world: WorldSize) -> list[Slice]:
    """Cut attempts into slices, those with the most work first, such that the workers end soonest."""
    cuts = [_cut(attempts, workers * parts, world) for parts in range(1, FINEST + 1)]
    return min(cuts, key=lambda cut: elapsed_s(cut, workers))


def elapsed_s(cut: Sequence[Slice], workers: int) -> float:
    """Time in which the workers compute the slices, each taking the next one when it is free."""
    free_s = [0.0] * workers
    for part in cut:
        heapq.heapreplace(free_s, free_s[0] + part.work_s)
    return max(free_s)


def _cut(attempts: Sequence[PlannedAttempt], parts: int, world: WorldSize) -> list[Slice]:
    share_s = sum(attempt.work_s for attempt in attempts) / parts
    groups: dict[str, list[PlannedAttempt]] = {}
    for attempt in sorted(attempts, key=lambda attempt: (-attempt.work_s, attempt.visit)):
        groups.setdefault(attempt.cell.server_version, []).append(attempt)
    found = [
        Slice(version, tuple(dealt), world)
        for version, members in groups.items()
        for dealt in _dealt(
            members, min(len(members), math.ceil(round(sum(attempt.work_s for attempt in members) / share_s, 6)))
        )
    ]
    return sorted(found, key=lambda part: -part.work_s)


def _dealt(attempts: Sequence[PlannedAttempt], hands: int) -> list[list[PlannedAttempt]]:
    """Deal attempts, longest first, each to the hand with the least work."""
    dealt: list[list[PlannedAttempt]] = [[] for _ in range(hands)]
    least = [(0.0, hand) for hand in range(hands)]
    for attempt in attempts:
        work_s, hand = least[0]
        dealt[hand].append(attempt)
        heapq.heapreplace(least, (work_s + attempt.work_s, hand))
    return dealt


class Mailbox:
    """Journal entries on their way from workers to the driver, each a file that is complete or absent."""

    def __init__(self, results: Path) -> None:
        self._folder = results / "ended"

    def put(self, entry: Entry) -> None:
        self._folder.mkdir(exist_ok=True)
        with written_whole(self._folder / f"{entry.cell}-b{entry.block}-a{entry.attempt}.json") as file:
            file.write_text(json.dumps(asdict(entry), ensure_ascii=False), encoding="utf-8")

    def take(self, keep: Callable[[Entry], None]) -> None:
        """Pass new entries to `keep`, the earliest end first, and delete each afterwards."""
        arrived = [(journal.parse(path.read_bytes(), path), path) for path in self._folder.glob("*.json")]
        for entry, path in sorted(arrived, key=lambda pair: (pair[0].at, pair[0].cell, pair[0].block)):
            keep(entry)
            path.unlink()

    def close(self) -> None:
        """Remove the folder, and the half-written files of killed workers."""
        for path in self._folder.glob("*.tmp"):
            path.unlink()
        with contextlib.suppress(FileNotFoundError):
            self._folder.rmdir()


def run(
    experiment: Experiment,
    attempts: Sequence[PlannedAttempt],
    *,
    master: str,
    make_testbed: MakeTestbed,
    on_entry: Callable[[Entry], None],
) -> None:
    """Make each attempt, and those that its cell needs to be no longer in doubt; call `on_entry` as each ends.

    Raise JobBroken if Spark cannot continue.
    """
    mailbox = Mailbox(experiment.results)
    first = {(planned.visit.id, planned.visit.block): planned.attempt for planned in attempts}
    ended: set[tuple[str, int, int]] = set()

    def keep(entry: Entry) -> None:
        attempt = (entry.cell, entry.block, entry.attempt)
        if entry.attempt >= first.get((entry.cell, entry.block), math.inf) and attempt not in ended:
            ended.add(attempt)
            on_entry(entry)

    fruitless = 0  # rounds in a row
    while left := [
        planned for planned in attempts if (planned.visit.id, planned.visit.block, planned.attempt) not in ended
    ]:
        before = len(ended)
        with context(master, SPARK) as spark:
            broken = _round(spark, experiment, left, make_testbed, lambda: mailbox.take(keep))
        broken = broken or f"what they wrote to {experiment.results} {NOT_THERE} this machine"
        fruitless = fruitless + 1 if len(ended) == before else 0
        if fruitless == FRUITLESS_MAX:
            raise JobBroken(f"Spark's Python workers failed: {broken}{remedy(broken)}")
    mailbox.close()


class SparkExecutor:
    """Implements `run.engine.Executor`: cells that depend on no decision are one job of Spark.

    A job builds its worlds anew, so there are as few as the decisions allow.
    """

    attempts_max = 1  # another one would compute the same

    def __init__(self, experiment: Experiment, reporter: Reporter, *, master: str, decides_by_block: bool) -> None:
        """`decides_by_block` says that some cells may need no further block once they have had the first four."""
        self._experiment = experiment
        self._reporter = reporter
        self._master = master
        self._decides_by_block = decides_by_block

    def batches(self, items: Sequence[Visit]) -> Iterator[Sequence[Visit]]:
        if not self._decides_by_block:
            return iter([items])
        by_block = itertools.groupby(items, lambda visit: max(visit.block, BLOCKS_OF_PRECISION))
        return (list(of_blocks) for _, of_blocks in by_block)

    def time_left(self, items: Sequence[Visit]) -> TimeLeftByWork:
        return TimeLeftByWork({label(visit.id, visit.block): self._work_s(visit) for visit in items})

    def run(self, attempts: Sequence[Due[Visit]], on_end: Callable[[Attempted], None]) -> None:
        self._reporter.phase("building and warming worlds")
        planned = [PlannedAttempt(due.item, due.attempt, self._work_s(due.item)) for due in attempts]

        def on_entry(entry: Entry) -> None:
            self._reporter.phase(f"{label(entry.cell, entry.block)}: {describe(entry)}")
            on_end(Attempted(entry))

        run(self._experiment, planned, master=self._master, make_testbed=virtual_testbed, on_entry=on_entry)

    def close(self) -> None: ...

    def _work_s(self, visit: Visit) -> float:
        settings = self._experiment.settings
        return cell_work_s(visit.cell, settings.settle + settings.measure)


def _round(
    spark: SparkContext,
    experiment: Experiment,
    attempts: Sequence[PlannedAttempt],
    make_testbed: MakeTestbed,
    collect: Callable[[], None],
) -> str:
    """Give every attempt to Spark and collect entries until it has finished; return why it failed, or ""."""
    cut = slices(attempts, spark.defaultParallelism, experiment.world)
    job: Future[None] = Future()
    threading.Thread(target=_submit, args=(spark, cut, experiment, make_testbed, job), daemon=True).start()
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
    return why_broken(error) if error else ""


def _submit(
    spark: SparkContext, cut: Sequence[Slice], experiment: Experiment, make_testbed: MakeTestbed, job: Future[None]
) -> None:
    try:
        # One partition for each slice, in their order.
        spark.parallelize(cut, len(cut)).foreach(functools.partial(run_slice, experiment, make_testbed))
        job.set_result(None)
    except BaseException as error:
        job.set_exception(error)


def run_slice(experiment: Experiment, make_testbed: MakeTestbed, part: Slice) -> None:
    """Run a slice, in a worker that dies with its parent, as do its forks."""
    die_with_parent(os.getppid())
    if not experiment.results.is_dir():
        raise FileNotFoundError(f"{experiment.results} {NOT_THERE} {socket.gethostname()}")
    mailbox = Mailbox(experiment.results)
    testbed = make_testbed(experiment)
    testbed.make_ready(part.attempts[0].visit, Phases())  # a world that cannot be built ends the job
    executor = InProcess(testbed, Reporter())
    for planned in part.attempts:
        for attempt in itertools.count(planned.attempt):
            entry = _attempt(executor, planned.visit, attempt, experiment.results)
            mailbox.put(entry)
            if not is_in_doubt(entry, attempt):
                break


def _attempt(executor: InProcess[Visit], visit: Visit, attempt: int, results: Path) -> Entry:
    # The number of the run need not differ from other cells', since no two share a world.
    due = Due(visit, attempt, attempt)
    entries: list[Entry] = []
    try:
        executor.run([due], lambda attempted: entries.append(attempted.entry))
    except Exception as error:
        # Our bug in one cell. It happened in a fork, so the world and the other cells are not affected.
        return entry_of(*due, None, _write_traceback(error, due, results), {})
    [entry] = entries
    return entry


def _write_traceback(error: Exception, due: Due[Visit], results: Path) -> str:
    """Write the traceback to a file and return a line that names it."""
    path = results / "tracebacks" / f"{due.item.id}-b{due.item.block}-a{due.attempt}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return f"{text} (traceback in {path.relative_to(results)})"


if __name__ == "__main__":
    import pyspark.worker  # noqa: F401
    from pyspark.daemon import manager

    manager()
