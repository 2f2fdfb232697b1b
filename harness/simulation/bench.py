"""Cells at whatever prices: a process for each dialog ratio builds one warmed world, and measures on copies of it."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from harness import records
from harness.failures import MachineFailure
from harness.lab.processes import die_with_parent
from harness.matrix import PAPER_VERSIONS, Cell
from harness.simulation import cell as cells
from harness.simulation import copies
from harness.simulation.cell import Times
from harness.simulation.group import Group
from harness.simulation.parameters import Parameters
from harness.sweep.attempt import CellFailed
from harness.whitepaper import BASE_DIALOG_RATIO, TRICK_DIALOG_RATIO

TIMES = Times(settle=0.5, measure=1.0)
VERSION = PAPER_VERSIONS[-1]


class BenchFailed(MachineFailure):
    """A world does not come up or a cell gives no numbers; the message says which and why."""


@dataclass(frozen=True)
class Figures:
    """Of one cell."""

    processed_per_s: float
    initiator_percent: float  # of all its processors, the mean of the initiators
    target_percent: float


Found = Mapping[Cell, Figures]


class Bench:
    """Worlds with the build of some parameters. Made in the main thread, whose end would be that of its processes;
    close it, which ends whatever they are at."""

    def __init__(self, parameters: Parameters, *, seed: int) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        with _deaf_to_ctrl_c():
            self._workers = {
                ratio: _Worker(parameters, ratio, seed, Path(self._folder.name))
                for ratio in (TRICK_DIALOG_RATIO, BASE_DIALOG_RATIO)
            }

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers.values():
            worker.kill()
        self._folder.cleanup()

    @property
    def folder(self) -> Path:
        """For what its processes write; it is there as long as they are."""
        return Path(self._folder.name)

    def measure(self, parameters: Parameters, wanted: Iterable[Cell], *, results: Path | None = None) -> Found:
        """Each cell, of the worlds' dialog ratios and version, at these parameters' prices; BenchFailed otherwise.
        Raw records are kept in the folder `results`, if there is one."""
        shares: dict[int, list[Cell]] = {}
        for cell in wanted:
            shares.setdefault(cell.dialog_ratio, []).append(cell)
        for ratio, share in shares.items():
            self._workers[ratio].ask(parameters, share, results)
        return {cell: figures for ratio in shares for cell, figures in self._workers[ratio].answer().items()}


class _Worker:
    """The process that has the world of a dialog ratio."""

    def __init__(self, parameters: Parameters, dialog_ratio: int, seed: int, folder: Path) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, os.getpid(), parameters, dialog_ratio, seed, folder)
        self._process = context.Process(target=_work, args=arguments, name=f"world of dialog ratio {dialog_ratio}")
        self._process.start()
        theirs.close()

    def ask(self, parameters: Parameters, wanted: Sequence[Cell], results: Path | None) -> None:
        with contextlib.suppress(BrokenPipeError):  # it has failed: `answer` says why
            self._pipe.send((parameters, wanted, results))

    def answer(self) -> Found:
        try:
            answer: Found | str = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            self._process.join()
            raise BenchFailed(f"the {self._process.name} ended with exit code {self._process.exitcode}") from None
        if isinstance(answer, str):
            raise BenchFailed(answer)
        return answer

    def kill(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Processes that are started meanwhile: it ends their parent, and the parent them, without a traceback of each."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _work(  # noqa: PLR0917
    pipe: Connection, parent_pid: int, parameters: Parameters, dialog_ratio: int, seed: int, folder: Path
) -> None:
    """Answers figures for (parameters, cells, folder for records) until it is killed, or with what failed, and ends."""
    die_with_parent(parent_pid)
    what = f"the world of dialog ratio {dialog_ratio}"
    try:
        group = Group(parameters, VERSION, dialog_ratio, seed=seed)
        while True:
            priced, wanted, results = pipe.recv()
            found = {}
            for cell in wanted:
                what = cell.id
                found[cell] = copies.in_copy(partial(_measure, group, priced, cell, results, folder))
            pipe.send(found)
    except (MachineFailure, CellFailed) as failure:
        pipe.send(f"{what}: {' '.join(str(failure).split())}")


def _measure(group: Group, parameters: Parameters, cell: Cell, kept: Path | None, folder: Path) -> Figures:
    group.lab.world.reprice(parameters)
    with contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory(dir=folder) as own:
        results = Path(own)
        measured = cells.run(group.lab, cell, 1, TIMES, results, pages=group.pages)
        rows = pq.read_table(records.raw_path(results, "processors", cell, 1)).to_pylist()
    if not measured.processed_per_s:
        raise CellFailed("no message was processed in its window")
    percent = {
        row["instance"]: 100 * row["processor_time_ms"] * 1e6 / (row["window_ns"] * row["processors"]) for row in rows
    }
    return Figures(
        measured.processed_per_s,
        float(np.mean([value for name, value in percent.items() if name != "target"])),
        percent["target"],
    )
