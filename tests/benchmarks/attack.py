"""Attacks on a server: generated batches and damaged packets, many more than the tests send.

`python -m tests.benchmarks.attack --seed 7 --batches 10000 --packets 5000` repeats a run; `--from N` begins at a number.
`--for 1h` attacks one process in all ways at once for so long (`tests.embedded.siege`), and prints its memory, descriptors,
sessions and log before, at most, and afterwards. Each attack that succeeded is printed, and each bound that did not
hold; then the exit code is 1.
"""

import argparse
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from tests.embedded.attack import Failure, attack_with_batches, attack_with_packets, serving
from tests.embedded.siege import besiege


@dataclass(frozen=True)
class Size:
    batches: int
    packets: int


FULL = Size(10_000, 5_000)
SMALLEST = Size(3, 3)


def main(size: Size = FULL, *, seed: int | None = None, first: int = 0, seconds: float = 0) -> None:
    """Exit with 1 if an attack succeeded."""
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    how = f"--for {seconds:g}s" if seconds else f"--batches {size.batches} --packets {size.packets}"
    repeat = f"python -m tests.benchmarks.attack --seed {seed} {how}"
    print(f"attacks on a server with seed {seed}; to repeat them: {repeat}", flush=True)
    failures: list[Failure] = []

    def failed(failure: Failure) -> None:
        failures.append(failure)
        print(f"number {failure.number}: {failure.what}\n    {failure.attack[:2000]!r}", flush=True)

    if seconds:
        with serving() as server:
            besiege(server, seed, seconds, failed, lambda line: print(line, flush=True))
    else:
        _count(size, seed, first, failures, failed)
    if failures:
        raise SystemExit(1)


def _count(size: Size, seed: int, first: int, failures: list[Failure], failed: Callable[[Failure], None]) -> None:
    for kind, count, attack in (
        ("batches", size.batches, attack_with_batches),
        ("packets", size.packets, attack_with_packets),
    ):
        before, began = len(failures), time.monotonic()
        attack(seed, range(first, first + count), failed)
        print(f"{count:6} {kind}: {len(failures) - before} succeeded, {time.monotonic() - began:.0f} s", flush=True)


def duration_s(text: str) -> float:
    """Seconds of `90s`, `10m` or `1h`."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1:]]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--batches", type=int, default=FULL.batches)
    parser.add_argument("--packets", type=int, default=FULL.packets)
    parser.add_argument("--for", type=duration_s, default=0, dest="seconds", metavar="DURATION", help="90s, 10m, 1h")
    parser.add_argument("--from", type=int, default=0, dest="first")
    given = parser.parse_args()
    main(Size(given.batches, given.packets), seed=given.seed, first=given.first, seconds=given.seconds)
