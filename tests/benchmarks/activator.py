"""The activator under load for a while, with kills at random: readers, activators and the server.

`python -m tests.benchmarks.activator --for 1h --seed 7` repeats a run. It prints what was confirmed, lost and processed
twice, what was left in queues and running, and the activator's memory. The exit code is 1 if anything was.
"""

import argparse
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.activator.conftest import Site
from tests.activator.siege import Siege
from tests.benchmarks.attack import duration_s


@dataclass(frozen=True)
class Size:
    seconds: float
    pauses_s: tuple[float, float]  # shortest and longest between two kills


FULL = Size(120, (2, 15))
SMALLEST = Size(0, (0.2, 0.5))


def main(size: Size = FULL, *, seed: int | None = None) -> None:
    """Exit with 1 if a message was lost or processed twice, or something was left."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    print(f"kills of the activator with seed {seed}, for {size.seconds:g} s", flush=True)
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        site = Site(Path(folder))
        try:
            site.write(max=3)
            outcome = Siege(site, seed, size.pauses_s).run(size.seconds, lambda line: print(line, flush=True))
        finally:
            site.server.stop()
            os.chdir(before)
    kills = ", ".join(f"{count} {what}" for what, count in sorted(outcome.kills.items()))
    print(f"killed: {kills}; readers were started {outcome.starts} times")
    print(
        f"activator: {outcome.confirmed} messages confirmed, {outcome.lost} lost, {outcome.twice} processed twice, "
        f"{outcome.in_queues} in queues, {outcome.processes} processes left, "
        f"{min(outcome.resident_mib)} to {max(outcome.resident_mib)} MiB resident",
        flush=True,
    )
    if not outcome.is_whole:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--for", dest="seconds", type=duration_s, default=FULL.seconds, metavar="1h")
    options = parser.parse_args()
    main(Size(options.seconds, FULL.pauses_s), seed=options.seed)
