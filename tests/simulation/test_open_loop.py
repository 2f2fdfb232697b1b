"""A stall of an instance in the open and in the closed loop, in virtual time."""

import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest

from harness.definitions.load_model import OpenLoop
from harness.definitions.matrix import Cell, Visit
from harness.lab import dialog_pool, link
from harness.load.plan import CellPlan
from harness.simulation import forks, simulated_lab
from harness.simulation.client_threads import SimulatedClients
from harness.simulation.parameters import read
from harness.simulation.simulated_lab import SimulatedInstance, SimulatedLab

pytestmark = pytest.mark.process

CELL = Cell.parse("i1-t10-r1-p100-v2008")
RATE_PER_S, WINDOW_S, STALL_S = 500.0, 2.0, 0.2
PAPER = read("paper")


@pytest.fixture(scope="module")
def lab() -> SimulatedLab:
    lab = simulated_lab.open(PAPER, version="2008", initiators=1, seed=1)
    link.link(lab)
    dialog_pool.build(lab, initiators=1, dialogs=CELL.threads)
    return lab


@dataclass
class Sends:
    """The calls of a cell of WINDOW_S that ends when all are done."""

    intended_ns: npt.NDArray[np.int64]
    started_ns: npt.NDArray[np.int64]
    latency_ms: npt.NDArray[np.float64]

    @property
    def p99_ms(self) -> float:
        return float(np.percentile(self.latency_ms, 99))


def send(lab: SimulatedLab, open_loop: OpenLoop | None, stall_s: float) -> Sends:
    """Send for WINDOW_S, in a fork of the lab; after half of it one write of the initiator's log takes `stall_s`."""
    return forks.in_fork(partial(_send, lab, open_loop, stall_s))


def _send(lab: SimulatedLab, open_loop: OpenLoop | None, stall_s: float) -> Sends:
    [initiator] = lab.initiators
    assert isinstance(initiator, SimulatedInstance)
    with initiator.connect() as connection:
        [handles] = dialog_pool.used([connection], 1, CELL.threads)
    log = initiator.server.computer.log
    log.change_costs(
        PAPER.log.model_copy(update={"flush_latency_spread": 0, "bytes_per_s": 10**12})
    )  # the stall is exact
    with tempfile.TemporaryDirectory() as folder:
        clients = SimulatedClients(lab)
        clients.prepare(CellPlan(Visit(CELL), 1, 1, [""], [handles], Path(folder), open_loop=open_loop))
        clients.start()
        until_s = lab.clock.now_s() + WINDOW_S
        lab.clock.sleep(WINDOW_S / 2)
        if stall_s:
            log.slowdown = stall_s * 1e6 / PAPER.log.flush_latency_us
            lab.clock.sleep(1 / RATE_PER_S)  # a write begins
            log.slowdown = 1.0
        lab.clock.sleep(until_s - lab.clock.now_s())
        report = clients.stop()
        assert not report.problems and not report.failed_calls
        [path] = (Path(folder) / "raw" / "calls").iterdir()
        table = pq.read_table(path)
    columns = (table[name].to_numpy() for name in ("intended_at_ns", "started_at_ns", "latency_ns"))
    intended, started, latency = columns
    return Sends(intended, started, latency / 1e6)


def open_loop(arrivals: str) -> OpenLoop:
    return OpenLoop(RATE_PER_S, arrivals, 1)  # type: ignore[arg-type]


def test_a_stall_moves_the_p99_of_the_open_loop_by_arithmetic_and_hardly_that_of_the_closed_loop(
    lab: SimulatedLab,
) -> None:
    """Of all sends of the window the worst hundredth are those intended in the first hundredth of it after the stall's
    begin; the last of these has waited for the stall without that time."""
    calm, stalled = (send(lab, open_loop("constant"), stall_s) for stall_s in (0.0, STALL_S))
    arithmetic_ms = (STALL_S - WINDOW_S / 100) * 1000
    assert stalled.p99_ms == pytest.approx(arithmetic_ms, rel=0.10)
    assert calm.p99_ms < arithmetic_ms / 10
    # Of some 4,000 calls of the closed loop the stall holds ten.
    calm, stalled = (send(lab, None, stall_s) for stall_s in (0.0, STALL_S))
    assert stalled.latency_ms.max() > 0.9 * STALL_S * 1000
    assert stalled.p99_ms == pytest.approx(calm.p99_ms, rel=0.10)


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_all_sends_of_the_schedule_start_when_they_are_intended(lab: SimulatedLab, arrivals: str) -> None:
    loop = open_loop(arrivals)
    sends = send(lab, loop, 0.0)
    assert len(sends.intended_ns) == loop.due(1, 1, 0, round(WINDOW_S * 1e9))
    intended = np.sort(sends.intended_ns)
    gaps = np.diff([at_ns for at_ns, _ in zip(loop.starts_ns(1, 1), intended, strict=False)])
    assert (np.diff(intended) == gaps).all()
    assert (sends.started_ns - sends.intended_ns).max() < 1_000_000


def test_while_sends_are_due_no_thread_is_idle(lab: SimulatedLab) -> None:
    sends = send(lab, open_loop("poisson"), STALL_S)
    in_order = np.argsort(sends.intended_ns)
    assert (np.diff(sends.started_ns[in_order]) >= 0).all(), "an earlier send starts earlier"
    late = (sends.started_ns - sends.intended_ns) > 1_000_000
    returned = sends.intended_ns + (sends.latency_ms * 1e6).round().astype(np.int64)
    for place in np.flatnonzero(late):
        others = np.delete(np.arange(len(late)), place)
        at_ns = (sends.intended_ns[place] + sends.started_ns[place]) // 2
        busy = (sends.started_ns[others] <= at_ns) & (returned[others] >= at_ns)
        assert busy.sum() >= CELL.threads
    assert late.any()
