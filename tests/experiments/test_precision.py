"""Pairs of cells that are repeated until the interval of their gain is narrow enough."""

import math
import random
import re
import statistics
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.definitions.matrix import Cell, Visit, sweep_order
from harness.experiments import precision, repeats_plan
from harness.experiments.precision import Precision
from harness.experiments.selected_cells import chosen_visits
from harness.files.journal import Entry, Journal
from harness.files.records import State
from harness.files.settings import Settings, SettingsError
from harness.output.reporting import Reporter
from harness.run import in_process
from harness.run.attempt import Measured
from harness.run.engine import Sweep
from harness.run.in_process import InProcess
from harness.run.phases import Phases
from tests.examples import share

CELLS = [Cell("2008", 1, ratio, threads, 100) for threads in (1, 5, 10) for ratio in (1, 50, 150)]
REPEATS = 8
SETTINGS = Settings(repeats=REPEATS, precision=0.1, ratios=(1, 50, 150))


class NoisyTestbed(in_process.Testbed[Visit]):
    """Gives each visit a rate of its own chance, a tenth of the cells a state that does not count, and may be killed."""

    def __init__(self, noise: float, *, visits_max: int = 1000) -> None:
        self.noise = noise
        self.ran: list[Visit] = []
        self.visits_max = visits_max

    def make_ready(self, cell: Visit, phases: Phases) -> None:
        if len(self.ran) == self.visits_max:
            raise KeyboardInterrupt

    def run(self, cell: Visit, attempt: int, run: int, phases: Phases) -> Measured:
        self.ran.append(cell)
        rng = random.Random(f"{cell.id} {cell.block}")
        rate = 1000 * (2 if cell.cell.dialog_ratio > 1 else 1) * (1 + self.noise * rng.uniform(-1, 1))
        return Measured(rate, rate, 20, 1, {}, state=State.DISTURBED if rng.random() < 0.1 else State.VALID)


def sweep(testbed: NoisyTestbed, folder: Path, settings: Settings = SETTINGS) -> Journal:
    journal = Journal(folder / "journal.jsonl")
    visits = sweep_order(CELLS, seed=1, repeats=settings.repeats)
    Sweep(InProcess(testbed, Reporter()), journal, Reporter(), folder).run(
        visits, Precision(settings.precision, visits, journal).is_needed
    )
    return journal


def log_ratios(journal: Journal, cell: Cell, before: int) -> list[float]:
    return list(log_ratios_by_block(journal, cell, before).values())


def log_ratios_by_block(journal: Journal, cell: Cell, before: int) -> dict[int, float]:
    """The same computed by hand: of each block in which both cells are valid."""
    rates = {(entry.cell, entry.block): entry for entry in journal.entries if entry.block < before}
    base = Cell(cell.server_version, cell.initiators, 1, cell.threads, cell.payload_bytes)
    pairs = {block: (rates.get((cell.id, block)), rates.get((base.id, block))) for block in range(1, before)}
    return {
        block: math.log(one.processed_per_s / other.processed_per_s)
        for block, (one, other) in pairs.items()
        if one and other and one.state == other.state == State.VALID
    }


def is_precise(journal: Journal, cell: Cell, before: int) -> bool:
    """Whether an interval of the spread of all gains together, over the blocks of this one, is narrow enough."""
    gained = [log_ratios(journal, each, before) for each in CELLS if each.dialog_ratio > 1]
    freedom = sum(len(logs) - 1 for logs in gained if logs)
    blocks = len(log_ratios(journal, cell, before))
    if blocks < 4 or not freedom:
        return False
    noise = math.sqrt(sum((len(logs) - 1) * statistics.variance(logs) for logs in gained if len(logs) > 1) / freedom)
    return 2 * math.sinh(stats.t.ppf(0.975, blocks - 1) * noise / math.sqrt(blocks)) < 0.1


def seems_correlated(journal: Journal, before: int) -> bool:
    """Whether deviations from a pair's mean follow those of the block before, at the level of 30 %."""
    products = squares = 0.0
    sizes = []
    for pair in {cell.pair for cell in CELLS}:
        gained = [
            log_ratios_by_block(journal, cell, before) for cell in CELLS if cell.pair == pair and cell.dialog_ratio > 1
        ]
        blocks = sorted({block for gains in gained for block in gains})
        means = {block: statistics.mean(gains[block] for gains in gained if block in gains) for block in blocks}
        if len(means) > 1:
            sizes.append(len(means))
            around = {block: mean - statistics.mean(means.values()) for block, mean in means.items()}
            squares += sum(value**2 for value in around.values())
            products += sum(value * around.get(block - 1, 0.0) for block, value in around.items())
    error = math.sqrt(sum((n - 2) ** 2 / (n**2 * (n - 1)) for n in sizes)) / max(1, len(sizes))
    return squares > 1e-9 and products / squares + 1 / statistics.mean(sizes) > 0.524 * error


@settings(max_examples=share(15))
@given(noise=st.floats(0.0, 0.2), stop_after=st.integers(0, 80))
def test_a_pair_is_repeated_until_all_its_gains_are_precise_also_when_the_sweep_is_killed_and_resumed(
    noise: float, stop_after: int
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            sweep(NoisyTestbed(noise, visits_max=stop_after), folder)
        except KeyboardInterrupt:
            sweep(NoisyTestbed(noise), folder)
        journal = Journal(folder / "journal.jsonl")
    blocks = Counter(Cell.parse(entry.cell).pair for entry in journal.entries)
    ran = {(entry.cell, entry.block) for entry in journal.entries}
    for pair in {cell.pair for cell in CELLS}:
        cells = [cell for cell in CELLS if cell.pair == pair]
        last = blocks[pair] // len(cells)
        assert {(cell.id, block) for cell in cells for block in range(1, last + 1)} <= ran
        gained = [cell for cell in cells if cell.dialog_ratio > 1]
        assert last == REPEATS or all(is_precise(journal, cell, last + 1) for cell in gained)
        assert (
            last == 1 or seems_correlated(journal, last) or not all(is_precise(journal, each, last) for each in gained)
        )


def test_a_sweep_without_noise_ends_after_four_valid_blocks_and_one_with_much_says_what_never_got_there(
    tmp_path: Path,
) -> None:
    quiet = sweep(NoisyTestbed(0.0), tmp_path)
    assert len(quiet.entries) < REPEATS * len(CELLS)
    assert precision.reached(0.1, quiet.entries) == "6 of 6 gains are known within 10 %."
    (tmp_path / "noisy").mkdir()
    noisy = sweep(NoisyTestbed(0.9), tmp_path / "noisy")
    assert len(noisy.entries) == REPEATS * len(CELLS)
    words = precision.reached(0.1, noisy.entries)
    assert words.startswith("0 of 6 gains are known within 10 %. Not there: i1-t")
    assert len(re.findall(r"i1-t\d+-r(?:50|150)-p100-v2008 \(\d valid blocks, [\d.e+]+ % wide\)", words)) == 6


def test_a_pair_of_which_one_gain_is_selected_waits_for_no_other(tmp_path: Path) -> None:
    """`--cells` may leave out some of the ratios."""
    journal = Journal(tmp_path / "journal.jsonl")
    visits = sweep_order([cell for cell in CELLS if cell.dialog_ratio != 50], seed=1, repeats=REPEATS)
    Sweep(InProcess(NoisyTestbed(0.0), Reporter()), journal, Reporter(), tmp_path).run(
        visits, Precision(0.1, visits, journal).is_needed
    )
    assert len(journal.entries) < len(visits)


def test_gains_that_follow_those_of_the_block_before_have_no_precision() -> None:
    entries = [
        Entry(cell.id, 1, "completed", "", "", 1, processed_per_s=1000.0 * factor, state=State.VALID, block=block)
        for block in range(1, 9)
        for cell in CELLS
        for factor in [1 + 0.01 * (block > 4) if cell.dialog_ratio > 1 else 1.0]
    ]
    assert precision.reached(0.1, entries) == (
        "No gain of 6 is known within 10 %: the gains of a block follow those of the block before (correlation 0.75 ± "
        "0.16), so intervals over blocks are too narrow. Something drifts on this machine: give a longer --measure, or "
        "find out what."
    )
    alternating = [
        replace(entry, block=2 * entry.block - 1 if entry.block <= 4 else 2 * entry.block - 8) for entry in entries
    ]
    assert precision.reached(0.1, alternating) == "6 of 6 gains are known within 10 %."


def test_gains_without_an_interval_are_named_first(tmp_path: Path) -> None:
    journal = sweep(NoisyTestbed(0.9), tmp_path, Settings(repeats=2))
    assert re.search(
        r"Not there: i1-t\d+-r\d+-p100-v2008 \([12] valid blocks, no interval\)",
        precision.reached(0.1, journal.entries),
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"repeats": 2}, "fewer than 4 blocks do not show: give the most blocks with --repeats, 4 or more"),
        ({"repeats": 5, "ratios": (150,)}, "select cells with dialog ratio 1 and with another"),
        ({"repeats": 5, "ratios": (1,)}, "select cells with dialog ratio 1 and with another"),
    ],
)
def test_a_precision_that_no_gain_can_have_is_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        chosen_visits(Settings(precision=0.1, **more))


def test_the_plan_says_after_how_many_blocks_a_pair_gets_there() -> None:
    noise = repeats_plan.Noise(0.05, "measured")
    # t(0.975, 6) = 2.447: 2 sinh(2.447 × 0.05 / √7) = 0.0926; with six blocks t is 2.571, and the width 0.105.
    assert "narrower than 10 % takes about 7 blocks" in repeats_plan.forecast(0.1, 10, noise)
    assert "takes more than 6 blocks, so raise --repeats" in repeats_plan.forecast(0.1, 6, noise)
