"""What reducing and drawing a full sweep costs: time, and processor time and memory of Python and the JVM together.

    python -m tests.benchmarks.reduction [--scale 0.26] [--keep DIR]

The goals on two cores, figures included: 20 s for the 528 cells of the model's reference, which have a few million calls
and as many deliveries, 25 s for 20 million, 3 minutes for 100 million, and 4 GiB always. The exit code is 1 where one is
missed.
"""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from harness.definitions.matrix import all_cells, select
from tests.results_fixture import write_raw

GIB = 1024**3
GOAL_BYTES = 4 * GIB
GOALS_S = ((10_000_000, 20), (30_000_000, 25), (math.inf, 180))  # for at most so many calls
SAMPLE_EVERY_S = 3.0  # a sample stops each process for some 10 ms


@dataclass(frozen=True)
class Size:
    cells: tuple[str, ...]  # patterns; none: all
    scale: float  # divides the paper's rates: 0.26 gives twenty million calls and as many deliveries


FULL = Size((), scale=2)  # with 1.7 s of load a cell, a few million calls
SMALLEST = Size(("i1-t1-*-p100-v2008",), scale=20)


class PeakMemory:
    """The largest sum of the proportional set sizes of this process and its descendants, sampled.

    A page that several processes share counts in each by its share, so the sum is what they take together.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> PeakMemory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        this = psutil.Process()
        while not self._stop.wait(SAMPLE_EVERY_S):
            total = 0
            for process in (this, *this.children(recursive=True)):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.bytes = max(self.bytes, total)


def measure(name: str, work: Callable[[], object]) -> tuple[float, int]:
    """Print and return the seconds and the peak bytes of the work."""
    started, used = time.perf_counter(), processor_s()
    with PeakMemory() as memory:
        work()
    elapsed, used = time.perf_counter() - started, processor_s() - used
    print(f"{name:<28}{elapsed:8.1f} s   processor {used:6.1f} s   peak {memory.bytes / GIB:.2f} GiB", flush=True)
    return elapsed, memory.bytes


def processor_s() -> float:
    """Return the processor time of this process and of the children that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main(size: Size = FULL, *, keep: Path | None = None) -> bool:
    """Whether the goals were reached."""
    folder = keep or Path(tempfile.mkdtemp(prefix="harness-benchmark-"))
    try:
        run = folder / "synthetic"
        if not run.is_dir():
            started = time.perf_counter()
            cells = select(all_cells(), size.cells)
            write_raw(run, cells, shape="paper", scale=size.scale, settle_s=0.7, measure_s=1.0)
            print(f"wrote the synthetic run in {time.perf_counter() - started:.0f} s")
        cells_done = len((run / "journal.jsonl").read_text().splitlines())
        calls = sum(pq.read_metadata(path).num_rows for path in (run / "raw" / "calls").iterdir())
        files = sum(1 for _ in (run / "raw").rglob("*.parquet"))
        print(f"{cells_done} cells, {calls:,} calls, as many deliveries, {files:,} files")
        # Imported late: what a user's process would hold.
        from harness.figures.build import draw  # noqa: PLC0415
        from harness.output.reporting import Lines  # noqa: PLC0415
        from harness.reductions import reduce  # noqa: PLC0415

        reduce_s, reduce_bytes = measure("reduce", lambda: reduce(run, progress=Lines()))
        draw_s, draw_bytes = measure("draw", lambda: draw(run))
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    goal_s = next(seconds for calls_max, seconds in GOALS_S if calls <= calls_max)
    took_s, used_bytes = reduce_s + draw_s, max(reduce_bytes, draw_bytes)
    is_reached = took_s <= goal_s and used_bytes <= GOAL_BYTES
    memory = f"{used_bytes / GIB:.1f} of {GOAL_BYTES // GIB} GiB"
    print(f"in all {took_s:.1f} s of {goal_s} s, {memory}: the goals are {'reached' if is_reached else 'MISSED'}")
    return is_reached


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for the synthetic run, kept afterwards and used again")
    parser.add_argument("--scale", type=float, default=FULL.scale, help="divides the paper's rates (%(default)g)")
    options = parser.parse_args()
    sys.exit(not main(replace(FULL, scale=options.scale), keep=options.keep))
