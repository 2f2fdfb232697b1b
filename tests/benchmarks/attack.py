"""Attacks on a server: generated batches and damaged packets, many more than the tests send.

`python -m tests.benchmarks.attack --seed 7 --batches 10000 --packets 5000` repeats a run; `--from N` begins at a number.
It prints each attack that succeeded, and how many there were of each kind.
"""

from __future__ import annotations

import argparse
import secrets
import time
from dataclasses import dataclass

from tests.embedded.attack import Failure, attack_with_batches, attack_with_packets


@dataclass(frozen=True)
class Size:
    batches: int
    packets: int


FULL = Size(10_000, 5_000)
SMALLEST = Size(3, 3)


def main(size: Size = FULL, *, seed: int | None = None, first: int = 0) -> None:
    """Exit with 1 if an attack succeeded."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    repeat = f"python -m tests.benchmarks.attack --seed {seed} --batches {size.batches} --packets {size.packets}"
    print(f"attacks on a server with seed {seed}; to repeat them: {repeat}", flush=True)
    failures: list[Failure] = []

    def failed(failure: Failure) -> None:
        failures.append(failure)
        print(f"number {failure.number}: {failure.what}\n    {failure.attack[:2000]!r}", flush=True)

    for kind, count, attack in (
        ("batches", size.batches, attack_with_batches),
        ("packets", size.packets, attack_with_packets),
    ):
        before, began = len(failures), time.monotonic()
        attack(seed, range(first, first + count), failed)
        print(f"{count:6} {kind}: {len(failures) - before} succeeded, {time.monotonic() - began:.0f} s", flush=True)
    if failures:
        raise SystemExit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--batches", type=int, default=FULL.batches)
    parser.add_argument("--packets", type=int, default=FULL.packets)
    parser.add_argument("--from", type=int, default=0, dest="first")
    given = parser.parse_args()
    main(Size(given.batches, given.packets), seed=given.seed, first=given.first)
