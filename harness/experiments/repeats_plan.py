"""What more repeats cost and show: hours, and the smallest gain of a pair that they can distinguish from none."""

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.claims.gain import noise_of
from harness.claims.judgement import PAIR, of_the_trick
from harness.definitions.inference import BLOCKS_MIN, blocks_for, smallest_visible_difference, smallest_visible_slowdown
from harness.definitions.units import counted
from harness.figures.ratios import FAMILIES
from harness.figures.reduced_run import read
from harness.files import manifest_file
from harness.files.certificate import Certificate
from harness.files.json_file import DamagedFile
from harness.files.records import ResultsError
from harness.output.reporting import duration

REPEATS = (1, 3, 5, 10)
EXPLANATION = "A gain of this size is distinguished from none in 80 % of sweeps, at the level of 5 %."


@dataclass(frozen=True)
class Noise:
    """The standard deviation of a pair's log ratio from block to block, where it is from, and how long cells settled
    there on average."""

    log_ratio: float
    origin: str
    settled_s: float | None = None  # None where no run was measured

    def __str__(self) -> str:
        percent = 100 * math.expm1(self.log_ratio)
        return f"A pair's ratio varies by {percent:.2g} % from block to block, {self.origin}."


def newest(results: Path, lab: str) -> Noise | None:
    """Return the noise of the newest run of the lab in a folder of runs that has repeats; None if there is none."""
    for folder in sorted(results.glob("*"), reverse=True):
        with contextlib.suppress(ResultsError, DamagedFile):
            manifest = manifest_file.read(folder)
            if manifest.get("lab") == lab and ((manifest.get("settings") or {}).get("repeats") or 1) > 1:
                return of_run(folder, lab)
    return None


def certified(certificate: Certificate) -> Noise | None:
    """Return the noise of twin runs; None where they had no pair."""
    return None if certificate.pair is None else Noise(certificate.pair, f"measured: {certificate.words}")


def unknown(results: Path, lab: str) -> str:
    """Say why nothing is known of the noise, and how to know it."""
    return (
        f"How much rates vary here is unknown: {results} has no run of the {lab} lab with repeats, and no harness aa "
        "was run. harness matrix --matrix quick --repeats 4 measures the first, harness aa also what differs by run"
    )


def of_run(folder: Path, lab: str) -> Noise:
    """Return the noise of a former run of the lab, from its repeats; raises ResultsError if it has none."""
    run = read(folder)
    if run.lab != lab:
        raise ResultsError(f"{folder} is a run of the {run.lab} lab, whose noise is not that of the {lab} lab")
    gain = of_the_trick(run.gain)
    noise = noise_of(gain) if len(gain) else None
    if noise is None:
        raise ResultsError(
            f"{folder} has no pair of valid cells in two blocks, so its noise is unknown: "
            "name a run with --repeats 2 or more"
        )
    valid = gain[gain.valid]
    pairs = int((valid.groupby(PAIR).block.nunique() > 1).sum())
    origin = f"measured: {counted(pairs, 'pair')} of {folder}, in up to {counted(int(valid.block.max()), 'block')}"
    return Noise(noise, origin, float(run.cells.settle_s.mean()))


def rows(noise: Noise | None, estimate_s: Callable[[int], float]) -> list[tuple[str, str, str]]:
    """Return the rows of a table, headings first; `estimate_s` gives the seconds of a number of repeats."""
    table = [("repeats", "time", "smallest visible gain of a pair")]
    for repeats in REPEATS:
        visible = smallest_visible_difference(repeats, noise.log_ratio if noise else math.nan)
        words = "none: one run has no interval" if visible is None else f"+{100 * visible:.3g} %"
        if noise is None and visible is not None:
            words = "unknown"
        table.append((str(repeats), f"about {duration(estimate_s(repeats))}", words))
    return table


def explanation(certificate: Certificate | None, cells: int) -> str:
    """Say what a visible gain is; where twin runs were made, also which slowdown `harness compare` finds between two
    runs of so many cells."""
    if certificate is None:
        return EXPLANATION
    variances = certificate.variances

    def visible(blocks: float) -> str:
        return f"{100 * smallest_visible_slowdown(blocks, cells, variances, FAMILIES):.0f} %"

    of_blocks = [f"{visible(repeats)} with {repeats} blocks each" for repeats in REPEATS if repeats >= BLOCKS_MIN]
    return (
        f"{EXPLANATION} Between two such runs, harness compare finds a slowdown of all cells of "
        f"{', of '.join(of_blocks)}; of less than about {visible(math.inf)} with no number of blocks: --pair measures "
        "both in one run."
    )


def forecast(precision: float, repeats: int, noise: Noise | None) -> str:
    """Say after how many blocks the interval of a gain is expected to be narrower than `precision`; nothing if its
    noise is unknown."""
    if noise is None:
        return ""
    blocks = blocks_for(precision, noise.log_ratio, repeats)
    number = f"more than {repeats} blocks, so raise --repeats" if blocks is None else f"about {blocks} blocks"
    return f"An interval narrower than {100 * precision:g} % takes {number}."
