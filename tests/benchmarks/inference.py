"""Whether the intervals and verdicts keep their word: comparisons of equal sides, and of sides of which one is slower.

    python -m tests.benchmarks.inference [--run DIR]

Each trial takes the same sides twice, once as they are and once with a slowdown of 20 % put into one of them:

* A pair: neighbours in each block, in random order, as the two cells of a gain. The interval of the ratio must exclude
  no difference in at most 7 % of trials with equal sides (95 % intervals: 5 % are meant to), and find the slowdown in
  at least 80 % at the number of repeats that `harness plan` names for it.
* Pairs that `--precision` stops: of all pairs at most 6 % may have an interval without the truth in a run that does not
  say that its blocks follow one another.
* Two runs, a few cells each, as `harness compare --fail-over 5%` judges them: at most 5 % false alarms, also where runs
  differ as wholes, if twin runs (`harness aa`) have measured by how much; and the slowdown in at least 80 % at the
  number of blocks with which `harness plan` says that it is found, if any is.

The noise is drawn by a generator, autocorrelated from cell to cell as the embedded lab's (lag-1 0.45), and taken from a
real run in blocks: `--run`, a run with repeats that was reduced, or a run of the embedded lab that the benchmark makes.
"""

import argparse
import contextlib
import io
import itertools
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from harness.definitions.inference import (
    BLOCKS_MIN,
    interval_between,
    interval_of_ratio,
    smallest_visible_difference,
    smallest_visible_slowdown,
)
from harness.definitions.variances import Variances, estimate
from harness.figures.ratios import FAMILIES

NOISE = 0.12  # standard deviation of a cell's log rate: that of one second on the embedded lab
LAG_1 = 0.45
SLOWDOWN = 0.2
THRESHOLD = 0.05
EXCLUDED_MAX, FOUND_MIN, FALSE_ALARMS_MAX = 0.07, 0.8, 0.05
CELLS = 6  # of a run, in the comparison of runs
BETWEEN = (0.0, 0.03, 0.06)  # standard deviations of runs
RUNS = 6  # of harness aa
REPEATS_MAX = 100
PAIRS, BLOCKS_MAX, WRONG_MAX = 12, 30, 0.06  # of a run with a precision


@dataclass(frozen=True)
class Size:
    trials: int
    run_trials: int  # comparisons of two runs
    cells: tuple[str, ...]  # patterns: of the real run
    repeats: int
    measure: str


FULL = Size(2000, 250, ("i1-t1-*-p100-v2008", "i1-t5-*-p100-v2008", "i2-t5-*-p100-v2008"), 14, "1s")
SMALLEST = Size(200, 4, (), 0, "")


def autocorrelated(random: np.random.Generator, length: int, noise: float, lag_1: float = LAG_1) -> np.ndarray:
    """Return values with a standard deviation of `noise`, each correlated with the one before by `lag_1`."""
    steps = random.normal(0, noise * np.sqrt(1 - lag_1**2), length)
    values = np.empty(length)
    values[0] = random.normal(0, noise)
    for place in range(1, length):
        values[place] = lag_1 * values[place - 1] + steps[place]
    return values


def drawn_pairs(random: np.random.Generator, trials: int, blocks: int) -> Iterator[np.ndarray]:
    """Yield the log rates of trials: a row per block, columns a and b, measured in random order, one after another."""
    for _ in range(trials):
        sequence = autocorrelated(random, 2 * blocks, NOISE).reshape(blocks, 2)
        turned = random.random(blocks) < 0.5
        yield np.where(turned[:, None], sequence[:, ::-1], sequence)


def excluded(pairs: Iterator[np.ndarray], slowdown: float = 0.0) -> float:
    """Return the share of trials whose interval excludes no difference, b slower by `slowdown`."""
    intervals = [interval_of_ratio(pair[:, 1] - pair[:, 0] + np.log1p(-slowdown)) for pair in pairs]
    return float(
        np.mean([not one.low <= 1 <= one.high for one in intervals if one.low is not None and one.high is not None])
    )


def repeats_for(noise: float) -> int:
    """Return the smallest number of repeats at which `harness plan` says that the slowdown is visible."""
    gain = 1 / (1 - SLOWDOWN) - 1
    known = ((n, smallest_visible_difference(n, noise)) for n in range(3, REPEATS_MAX))
    return next(n for n, visible in known if visible is not None and visible <= gain)


def verdict_of(share: float, bound: float, *, at_most: bool) -> str:
    kept = share <= bound if at_most else share >= bound
    words = f"at {'most' if at_most else 'least'} {100 * bound:g} %: {'kept' if kept else 'MISSED'}"
    return f"{100 * share:.1f} % ({words})"


def report(what: str, trials: int, pairs: Callable[[int], Iterator[np.ndarray]], noise: float, most: int) -> None:
    """Print what the intervals of trials show; `pairs` yields the trials of a number of blocks, `most` at most."""
    repeats = repeats_for(noise)
    print(f"{what}: a pair's log ratio varies by {noise:.3f} from block to block; {trials} trials")
    for blocks in sorted(number for number in {3, 5, 10, repeats} if number <= most):
        share = excluded(pairs(blocks))
        print(f"  equal sides, {blocks} blocks: excluded in {verdict_of(share, EXCLUDED_MAX, at_most=True)}")
    if repeats > most:
        print(f"  20 % slower: the plan names {repeats} blocks, and no pair has more than {most}", flush=True)
        return
    found = excluded(pairs(repeats), SLOWDOWN)
    print(
        f"  20 % slower, {repeats} blocks as planned: found in {verdict_of(found, FOUND_MIN, at_most=False)}",
        flush=True,
    )


def compare_runs(size: Size, random: np.random.Generator) -> None:
    """Print how often `compare --fail-over 5%` fails equal runs, and slower ones, where runs differ as wholes: without
    a certificate of twin runs, and with one."""
    for between, blocks in itertools.product(BETWEEN, (3, 5)):
        alarms = dict.fromkeys(itertools.product((0.0, SLOWDOWN), ("without", "with")), 0)
        for _ in range(size.run_trials):
            certificate = estimate(of_twins([drawn_run(random, blocks, between) for _ in range(RUNS)]))
            a, b = (drawn_run(random, blocks, between) for _ in range(2))
            for slowdown, known in alarms:
                alarms[slowdown, known] += is_slower(a, b, slowdown, certificate if known == "with" else None)
        shares = {key: count / size.run_trials for key, count in alarms.items()}
        print(
            f"compare --fail-over 5%, {CELLS} cells in {blocks} blocks, {100 * between:g} % between runs, "
            f"{size.run_trials} trials: false alarms without a certificate {100 * shares[0.0, 'without']:.1f} %, with "
            f"one {verdict_of(shares[0.0, 'with'], FALSE_ALARMS_MAX, at_most=True)}; 20 % slower found in "
            f"{100 * shares[SLOWDOWN, 'without']:.0f} % and {100 * shares[SLOWDOWN, 'with']:.0f} %",
            flush=True,
        )


def compare_as_planned(size: Size, random: np.random.Generator) -> None:
    """Print how often `compare --fail-over 5%` finds a slowdown with the blocks that `plan` names by a certificate."""
    for between in BETWEEN:
        named, found = [], 0
        for _ in range(size.run_trials):
            certificate = estimate(of_twins([drawn_run(random, BLOCKS_MIN, between) for _ in range(RUNS)]))
            blocks = blocks_named(certificate)
            if blocks is None:
                continue
            named.append(blocks)
            a, b = (drawn_run(random, blocks, between) for _ in range(2))
            found += is_slower(a, b, SLOWDOWN, certificate)
        share = verdict_of(found / len(named), FOUND_MIN, at_most=False) if named else "none"
        print(
            f"compare --fail-over 5%, {CELLS} cells, {100 * between:g} % between runs: by {len(named)} of "
            f"{size.run_trials} certificates the plan names blocks, {np.median(named) if named else np.nan:g} at the "
            f"median; with these 20 % slower found in {share}",
            flush=True,
        )


def is_slower(a: pd.DataFrame, b: pd.DataFrame, slowdown: float, certificate: Variances | None) -> bool:
    """Whether the gate finds that the second of two runs, slowed down by a part, is slower."""
    from harness.figures import gate  # noqa: PLC0415  the figures import Matplotlib
    from harness.figures.ratios import Design, by_cell, groups  # noqa: PLC0415

    slower = b.assign(processed_per_s=b.processed_per_s * (1 - slowdown))
    runs, design = (a, slower), Design(twins=certificate)
    ratios = by_cell(*runs, THRESHOLD, design), groups(*runs, THRESHOLD, design)
    return bool(gate.judge(*runs, *ratios, THRESHOLD, set()).slowdowns)


def blocks_named(twins: Variances) -> int | None:
    """Return the blocks of two runs of which `harness plan` says that they find the slowdown; None if there are none."""
    known = (
        n for n in range(BLOCKS_MIN, BLOCKS_MAX) if smallest_visible_slowdown(n, CELLS, twins, FAMILIES) <= SLOWDOWN
    )
    return next(known, None)


def of_twins(runs: list[pd.DataFrame]) -> pd.DataFrame:
    """Return what `harness aa` estimates variances from."""
    rows = pd.concat(run.assign(run=number) for number, run in enumerate(runs))
    return rows.assign(cell=rows.cell_id, log_rate=np.log(rows.processed_per_s))


def stop_at_a_precision(size: Size, random: np.random.Generator) -> None:
    """Print how often the interval of a pair that `--precision` stopped misses the truth, which is no gain, and the
    run does not say that its blocks follow one another."""
    from harness.claims.gain import correlation, interval_widths  # noqa: PLC0415

    for lag_1, wanted in itertools.product((0.0, LAG_1), (0.1, 0.2, 0.4)):
        covered, blocks, refused = [], [], 0
        for _ in range(size.run_trials):
            logs = np.array([autocorrelated(random, BLOCKS_MAX, NOISE, lag_1) for _ in range(PAIRS)])
            stopped: dict[int, int] = {}  # the blocks of each pair
            for block in range(1, BLOCKS_MAX + 1):
                rows = [
                    (pair, each, np.exp(logs[pair, each]))
                    for pair in range(PAIRS)
                    for each in range(stopped.get(pair, block))
                ]
                gain = pd.DataFrame(rows, columns=["threads", "block", "factor"]).assign(
                    server_version="2022", initiators=1, payload_bytes=100, dialog_ratio=150, valid=True
                )
                follows = correlation(gain)
                if not (follows and follows.is_suspected):
                    widths = interval_widths(gain).set_index("threads").width
                    stopped |= {pair: block for pair in range(PAIRS) if pair not in stopped and widths[pair] < wanted}
                if len(stopped) == PAIRS:
                    break
            if follows and follows.is_there:
                refused += 1
                continue
            for pair in range(PAIRS):
                blocks.append(stopped.get(pair, BLOCKS_MAX))
                interval = interval_of_ratio(logs[pair, : blocks[-1]])
                assert interval.low is not None and interval.high is not None
                covered.append(interval.low <= 1 <= interval.high)
        wrong = covered.count(False) / (size.run_trials * PAIRS)
        share = f"{100 * np.mean(covered):.1f} %" if covered else "none"
        print(
            f"--precision {100 * wanted:g}%, {PAIRS} pairs, lag-1 {lag_1:g} from block to block, {size.run_trials} "
            f"trials: refused in {100 * refused / size.run_trials:.1f} %; the others' pairs stopped after "
            f"{np.mean(blocks) if blocks else np.nan:.1f} blocks, and their intervals hold the truth in {share}: "
            f"wrong without a word {verdict_of(wrong, WRONG_MAX, at_most=True)} of all pairs",
            flush=True,
        )


def drawn_run(random: np.random.Generator, blocks: int, between: float) -> pd.DataFrame:
    """Return reduced cells with drawn rates, measured one after another, in random order in each block; `between` is
    the standard deviation of the run."""
    from harness.figures.ratios import POINT, QUANTITIES  # noqa: PLC0415

    sequence = autocorrelated(random, blocks * CELLS, NOISE)
    order = np.concatenate([random.permutation(CELLS) for _ in range(blocks)])
    rates = 1000 * np.exp(order / 10 + sequence + random.normal(0, between))
    return pd.DataFrame(
        dict.fromkeys([*QUANTITIES, *POINT, "total_threads"], 1)
        | {
            "cell_id": [f"cell-{number}" for number in order],
            "server_version": "2022",
            "block": np.repeat(np.arange(1, blocks + 1), CELLS),
            "processed_per_s": rates,
            "valid": True,
            "saturated": False,
        }
    )


def measured_run(size: Size, folder: Path) -> Path:
    """Run the embedded lab in blocks and reduce it."""
    from harness.experiments.matrix_run import sweep  # noqa: PLC0415
    from harness.output.reporting import Reporter  # noqa: PLC0415
    from harness.reductions import reduce  # noqa: PLC0415

    options = {"lab": "embedded", "cells": size.cells, "repeats": size.repeats, "measure": size.measure}
    outcome = sweep({**options, "results": folder}, Reporter())
    assert outcome is not None  # None: not confirmed
    with contextlib.redirect_stdout(io.StringIO()):
        reduce(outcome.results)
    return outcome.results


def real_pairs(run: Path) -> list[np.ndarray]:
    """Return the log rates of the pairs of cells that differ in the dialog ratio, a row per block in which both are valid.

    The ratio changes nothing on the embedded lab, so the two are equal sides.
    """
    gain = pd.read_parquet(run / "reduced" / "gain.parquet")
    gain = gain[gain.valid & (gain.factor > 0)]
    pair = ["server_version", "initiators", "threads", "payload_bytes", "dialog_ratio"]
    sides = ["processed_per_s_ratio_1", "processed_per_s"]
    return [np.log(rows.sort_values("block")[sides].to_numpy(dtype=float)) for _, rows in gain.groupby(pair)]


def real_cells(run: Path) -> list[np.ndarray]:
    """Return the log rates of the cells, a value per block in which the cell is valid."""
    cells = pd.read_parquet(run / "reduced" / "cells.parquet")
    valid = cells[(cells.state == "valid") & (cells.processed_per_s > 0)]
    return [np.log(rows.processed_per_s.to_numpy(dtype=float)) for _, rows in valid.groupby("cell_id")]


def trials_of(pairs: list[np.ndarray], random: np.random.Generator, trials: int, blocks: int) -> Iterator[np.ndarray]:
    """Yield trials: blocks of a pair, in each of which it is drawn anew which of the two is a."""
    long = [pair for pair in pairs if len(pair) >= blocks]
    for pair in itertools.islice(itertools.cycle(long), trials if long else 0):
        chosen = pair[random.choice(len(pair), blocks, replace=False)]
        yield np.where(random.random(blocks)[:, None] < 0.5, chosen[:, ::-1], chosen)


def split(cells: list[np.ndarray], random: np.random.Generator, trials: int, blocks: int, slowdown: float) -> float:
    """Return the share of random splits of a cell's blocks into two runs whose interval excludes no difference."""
    long = [cell for cell in cells if len(cell) >= 2 * blocks]
    intervals = []
    for cell in itertools.islice(itertools.cycle(long), trials):
        a, b = random.permutation(cell)[: 2 * blocks].reshape(2, blocks)
        intervals.append(interval_between(a, b + np.log1p(-slowdown)))
    return float(
        np.mean([not one.low <= 1 <= one.high for one in intervals if one.low is not None and one.high is not None])
    )


def real(run: Path, size: Size, random: np.random.Generator) -> None:
    """Print what the intervals show on a real run: of neighbours, and of the run split in two."""
    pairs, cells = real_pairs(run), real_cells(run)
    # The sides of a pair are equal and drawn anew in each block, so that only the spread around zero is noise.
    squares = np.concatenate([[0.0], *((pair[:, 1] - pair[:, 0]) ** 2 for pair in pairs)])
    noise = float(np.sqrt(squares.sum() / max(len(squares) - 1, 1)))
    most = max((len(pair) for pair in pairs), default=0)
    if most < BLOCKS_MIN:
        print(f"{run.name}: no pair is valid in {BLOCKS_MIN} blocks, so there is nothing to measure")
        return
    name = f"real run {run.name}"
    report(name, size.trials, lambda blocks: trials_of(pairs, random, size.trials, blocks), noise, most)
    for blocks in (3, 5):
        if max(len(cell) for cell in cells) >= 2 * blocks:
            equal, found = (split(cells, random, size.trials, blocks, slowdown) for slowdown in (0.0, SLOWDOWN))
            words = verdict_of(equal, EXCLUDED_MAX, at_most=True)
            print(
                f"  split in two runs of {blocks} blocks: excluded in {words}; 20 % slower found in {100 * found:.1f} %"
            )


def main(size: Size = FULL, *, run: Path | None = None) -> None:
    random = np.random.default_rng(1)
    noise = NOISE * np.sqrt(2 * (1 - LAG_1))  # of the difference of two neighbours
    report(
        "drawn noise", size.trials, lambda blocks: drawn_pairs(random, size.trials, blocks), float(noise), REPEATS_MAX
    )
    compare_runs(size, random)
    compare_as_planned(size, random)
    stop_at_a_precision(size, random)
    with tempfile.TemporaryDirectory() as directory:
        if run is None and size.cells:
            run = measured_run(size, Path(directory))
        if run is not None:
            real(run, size, random)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, help="a reduced run with repeats, in the place of one that is made")
    main(run=parser.parse_args().run)
