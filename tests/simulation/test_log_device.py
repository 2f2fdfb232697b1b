"""The log device, and group commit on it, against their arithmetic."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock
from harness.embedded.store import MemoryStore
from harness.simulation.log_device import LogDevice
from harness.simulation.parameters import LogParameters
from tests.simulation.hardware_fixture import Bench

LATENCY_US = 4_000.0
PARAMETERS = LogParameters(
    flush_latency_us=LATENCY_US,
    flush_latency_spread=0.0,
    bytes_per_s=100_000_000,
    bytes_per_flush=60_000,
    flushes_in_flight=8,
    writes_in_flight=8,
    record_overhead_bytes=60,
)


def device(clock: VirtualClock | None = None, **changes: float) -> LogDevice:
    return LogDevice(clock or VirtualClock(), SeededEntropy(1), PARAMETERS.model_copy(update=changes))


@pytest.mark.parametrize(
    "size_bytes, expected_us",
    [
        (0, 4_000),
        (1_000, 4_010),  # 100 bytes a microsecond
        (60_000, 4_600),
        (61_000, 4_610),  # two writes at the same time
        (480_000, 8_800),
        (481_000, 8_810),  # the ninth write may begin when the first is done, and waits for the channel
    ],
)
def test_a_flush_takes_time_for_its_bytes_and_a_latency(size_bytes, expected_us):
    assert device().duration_ns(size_bytes) == expected_us * 1_000


def durations_us(log: LogDevice, clock: VirtualClock, sizes: Iterable[int]) -> list[float]:
    """Of flushes one after another."""
    durations = []
    for size in sizes:
        durations.append(log.duration_ns(size) / 1_000)
        clock.now_ns += round(durations[-1] * 1_000)
    return durations


def test_latency_spreads_evenly_around_its_mean_and_follows_from_the_seed():
    clock = VirtualClock()
    found = durations_us(device(clock, flush_latency_spread=0.5), clock, [0] * 4_000)
    assert sum(found) / len(found) == pytest.approx(LATENCY_US, rel=0.02)
    assert 2_000 <= min(found) < 2_050 and 5_950 < max(found) <= 6_000
    clock = VirtualClock()
    assert durations_us(device(clock, flush_latency_spread=0.5), clock, [0] * 4_000) == found


def test_a_slow_device_takes_longer_until_the_slowdown_ends():
    clock = VirtualClock()
    log = device(clock)
    log.slowdown = 3.0
    assert durations_us(log, clock, [1_000]) == [12_030]
    log.slowdown = 1.0
    assert durations_us(log, clock, [1_000]) == [4_010]


def test_writes_overlap_and_end_in_their_order():
    log = device(flush_latency_spread=0.9)
    ends = [log.duration_ns(100) for _ in range(8)]  # all begin now
    assert ends == sorted(ends)
    assert ends[-1] < 8_000_000
    assert log.duration_ns(100) > ends[0]  # the ninth waits for the first


@pytest.mark.parametrize("in_flight", [1, 2, 8])
def test_commits_share_what_may_be_in_flight(in_flight):
    """Commits that come all the time, not in step: each flush takes a latency, so many flushes at once."""
    bench = Bench()
    log = device(bench.driver.clock, bytes_per_s=10**12, flushes_in_flight=in_flight)
    store = MemoryStore(bench.scheduler, flush_ns=log.duration_ns, flushes_in_flight=in_flight)
    for number in range(20_000):
        bench.scheduler.call_at(number * 100_000, lambda n=number: store.submit([("t", n, (b"x",))]) and None)
    bench.run(2.0)
    assert store.flushes == pytest.approx(in_flight * 2.0 / (LATENCY_US * 1e-6), rel=0.03)


@pytest.mark.parametrize("threads", [1, 2, 10, 50])
def test_group_commit_gives_every_task_one_commit_a_flush(threads):
    """A closed loop of commits with nothing between them: who commits while a flush is under way joins the next, so
    all threads share a flush and each commits once a latency, however many they are."""
    bench = Bench()
    store = MemoryStore(bench.scheduler, flush_ns=device(bench.driver.clock, bytes_per_s=10**12).duration_ns)
    commits = 0

    def committing(thread: int):
        nonlocal commits
        while True:
            yield from store.commit([("t", thread, (b"x",))])
            commits += 1

    for thread in range(threads):
        bench.scheduler.spawn(committing(thread), "thread")
    bench.run(4.0)
    assert commits == pytest.approx(threads * 4.0 / (LATENCY_US * 1e-6), rel=0.01)
    assert store.flushes == pytest.approx(1_000, abs=2)


def test_commits_that_come_in_the_middle_of_a_flush_wait_for_its_rest_and_a_whole_one():
    """With arrivals spread over the flush: half a flush and a flush on average."""
    bench = Bench()
    store = MemoryStore(bench.scheduler, flush_ns=device(bench.driver.clock, bytes_per_s=10**12).duration_ns)
    waited_us: list[float] = []

    def committing(number: int):
        came_us = bench.now_us()
        yield from store.commit([("t", number, (b"x",))])
        waited_us.append(bench.now_us() - came_us)

    for number in range(4_000):
        bench.scheduler.call_at(
            number * 97_000, lambda n=number: bench.scheduler.spawn(committing(n), "commit") and None
        )
    bench.run(2.0)
    assert len(waited_us) == 4_000
    assert sum(waited_us) / len(waited_us) == pytest.approx(1.5 * LATENCY_US, rel=0.03)
