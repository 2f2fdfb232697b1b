"""What reducing and drawing a full sweep costs: time, and the memory of Python and the JVM together.

    python -m tests.benchmarks.reduction [--keep DIR]

The budget for a full sweep on two cores: 90 s and 3 GiB.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from harness.matrix import all_cells
from tests.results_fixture import write_raw

BUDGET_S = 90
BUDGET_BYTES = 3 * 1024**3
GIB = 1024**3
LOOK_S = 3.0  # a look costs some 10 ms a process, and stops it meanwhile


class PeakMemory:
    """The largest sum of proportional set sizes of this process and its descendants, looked at now and then.

    Of a page that several processes share, as forked ones do, each counts its part: the sum is what they take together.
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
        while not self._stop.wait(LOOK_S):
            total = 0
            for process in (this, *this.children(recursive=True)):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.bytes = max(self.bytes, total)


def measure(name: str, work: Callable[[], object]) -> tuple[float, int]:
    """Seconds and peak bytes of the work, which are printed as well."""
    started = time.perf_counter()
    with PeakMemory() as memory:
        work()
    elapsed = time.perf_counter() - started
    print(f"{name:<28}{elapsed:8.1f} s   peak {memory.bytes / GIB:.2f} GiB", flush=True)
    return elapsed, memory.bytes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, help="folder for the synthetic run, kept afterwards and used again")
    options = parser.parse_args(arguments)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="harness-benchmark-"))
    try:
        run = folder / "synthetic"
        if not run.is_dir():
            started = time.perf_counter()
            # 1.7 s of load a cell at the paper's rates by a third: a few million calls in all.
            write_raw(run, all_cells(), shape="paper", scale=2, settle_s=0.7, measure_s=1.0)
            print(f"wrote the synthetic run in {time.perf_counter() - started:.0f} s")
        calls = sum(pq.read_metadata(path).num_rows for path in (run / "raw" / "calls").iterdir())
        files = sum(1 for _ in (run / "raw").rglob("*.parquet"))
        print(f"528 cells, {calls:,} calls, as many deliveries, {files:,} files")
        # Imported late: what a user's process would hold.
        from harness.figures import draw  # noqa: PLC0415
        from harness.reductions import reduce  # noqa: PLC0415

        reduce_s, reduce_bytes = measure("reduce", lambda: reduce(run, progress=print))
        draw_s, draw_bytes = measure("draw", lambda: draw(run))
    finally:
        if options.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    within = reduce_s + draw_s <= BUDGET_S and max(reduce_bytes, draw_bytes) <= BUDGET_BYTES
    print(f"in all {reduce_s + draw_s:.1f} s of {BUDGET_S} s: {'within' if within else 'OVER'} the budget")
    return 0 if within else 1


if __name__ == "__main__":
    raise SystemExit(main())
