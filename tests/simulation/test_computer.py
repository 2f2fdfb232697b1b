"""A computer's cores against queueing theory, its log device and group commit on it against their arithmetic, and the
costs that it charges for what the broker does."""

import math
import random
from collections.abc import Iterable

import pytest

from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.tasks import Delay
from harness.embedded.runtime.virtual import SeededEntropy, VirtualClock
from harness.embedded.store.memory_store import MemoryStore
from harness.simulation import parameters
from harness.simulation.computer import QUANTUM_NS, Computer, Cores, LogDevice
from harness.simulation.parameters import LogParameters
from tests.simulation.hardware_fixture import US, Bench, poisson_arrivals_us

SERVICE_US = 100
CUSTOMERS = 20_000
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
PAPER = parameters.read("paper").with_values({"send_us": 350, "send_us_per_kib": 4, "received_message_us": 80})


# Cores


def mean_wait_us(cores: int, arrivals_us: list[int], services_us: list[int]) -> float:
    """Mean time between coming and getting a core."""
    bench = Bench(cores)
    waits_us: list[float] = []

    def customer(service_us: int):
        came_us = bench.now_us()
        yield from bench.cores.use(service_us * US)
        waits_us.append(bench.now_us() - came_us - service_us)

    def arrivals():
        for at_us, service_us in zip(arrivals_us, services_us, strict=True):
            yield Delay(max(0, at_us * US - bench.driver.clock.now_ns))
            bench.scheduler.spawn(customer(service_us), "customer")

    bench.scheduler.spawn(arrivals(), "arrivals")
    bench.run(arrivals_us[-1] / 1e6 + 1)
    assert len(waits_us) == len(arrivals_us)
    assert bench.cores.busy_ns == sum(services_us) * US
    return sum(waits_us) / len(waits_us)


def test_cores_know_how_many_tasks_wait_for_one():
    bench = Bench(2)
    for number in range(5):
        bench.use(100, f"{number}")
    for us, waiting in ((50, 3), (150, 1), (250, 0)):
        bench.run((us - bench.now_us()) / 1e6)
        assert bench.cores.waiting_tasks == waiting


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_core_is_an_m_d_1_queue(load):
    """Pollaczek-Khinchine with a constant service time: W = rho * S / (2 (1 - rho))."""
    arrivals_us = poisson_arrivals_us(load / (SERVICE_US * 1e-6), CUSTOMERS, seed=1)
    measured_us = mean_wait_us(1, arrivals_us, [SERVICE_US] * CUSTOMERS)
    assert measured_us == pytest.approx(load * SERVICE_US / (2 * (1 - load)), rel=0.05)


@pytest.mark.parametrize("cores, load", [(2, 0.7), (8, 0.8)])
def test_several_cores_are_an_m_m_k_queue(cores, load):
    """Erlang's C formula."""
    offered = cores * load
    waiting = offered**cores / math.factorial(cores) / (1 - load)
    probability = waiting / (sum(offered**n / math.factorial(n) for n in range(cores)) + waiting)
    theory_us = probability * SERVICE_US / (cores * (1 - load))
    random_ = random.Random(2)
    services_us = [max(1, round(random_.expovariate(1 / SERVICE_US))) for _ in range(CUSTOMERS)]
    arrivals_us = poisson_arrivals_us(offered / (SERVICE_US * 1e-6), CUSTOMERS, seed=3)
    assert mean_wait_us(cores, arrivals_us, services_us) == pytest.approx(theory_us, rel=0.1)


def test_first_come_first_served_on_all_cores():
    bench = Bench(cores=2)
    for name, duration_us in (("a", 100), ("b", 30), ("c", 50), ("d", 10)):
        bench.use(duration_us, name)
    bench.run()
    assert bench.done == [("b", 30), ("c", 80), ("d", 90), ("a", 100)]


def test_busy_time_is_what_was_spent_until_now():
    bench = Bench(cores=2)
    bench.use(100, "a")
    bench.use(100, "b")
    bench.use(100, "c")
    bench.run(50e-6)
    assert bench.cores.busy_ns == 100 * US
    bench.run(100e-6)
    assert bench.cores.busy_ns == 250 * US
    bench.run()
    assert bench.cores.busy_ns == 300 * US


def test_a_long_use_of_a_core_yields_after_a_quantum():
    bench = Bench(cores=1)
    bench.use(10_000, "long")
    bench.use(100, "short", at_us=1)
    bench.run()
    assert bench.done == [("short", QUANTUM_NS // US + 100), ("long", 10_100)]
    total = bench.waits.totals["SOS_SCHEDULER_YIELD"]
    # The short one waited for the first quantum's end, the long one for the short one.
    assert (total.waiting_tasks_count, total.wait_ns, total.signal_ns) == (2, (3_999 + 100) * US, (3_999 + 100) * US)


def test_waiting_for_a_core_after_a_wait_is_that_waits_signal_time():
    bench = Bench(cores=1)

    def committing():
        task = bench.scheduler.current
        bench.waits.begin(task, "WRITELOG", 0)
        yield Delay(20 * US)
        bench.waits.end(task, bench.driver.clock.now_ns)
        yield from bench.cores.use(10 * US)

    bench.use(50, "other")
    bench.spawn(committing(), "committing")
    bench.run()
    total = bench.waits.totals["WRITELOG"]
    assert (total.waiting_tasks_count, total.wait_ns, total.signal_ns) == (1, 50 * US, 30 * US)
    assert total.max_wait_ns == 50 * US
    assert "SOS_SCHEDULER_YIELD" not in bench.waits.totals


def test_no_time_costs_nothing():
    assert list(Bench().cores.use(0)) == []


def test_shared_cores_serve_all_instances_and_each_counts_its_own_time():
    bench = Bench(cores=1)
    mine, others = (Cores(bench.scheduler, bench.waits, 1, shared_with=bench.cores) for _ in range(2))

    def use(cores: Cores, duration_us: int):
        yield from cores.use(duration_us * US)

    bench.spawn(use(mine, 30), "mine")
    bench.spawn(use(others, 20), "others'")
    bench.spawn(use(mine, 10), "mine again")
    bench.run()
    assert bench.done == [("mine", 30), ("others'", 50), ("mine again", 60)]
    assert (mine.busy_ns, others.busy_ns) == (40 * US, 20 * US)


# The log device


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


def test_a_deleted_row_is_logged_as_its_insert_was():
    bench = Bench()
    sizes_bytes: list[int] = []
    store = MemoryStore(bench.scheduler, flush_ns=lambda size_bytes: sizes_bytes.append(size_bytes) or 1)
    for value in ((bytes(1000),), None, None):
        store.submit([("t", 1, value)])
        bench.run(0.001)
    assert sizes_bytes == [1060, 1060, 60]


@pytest.mark.parametrize("in_flight", [1, 2, 8])
def test_commits_share_what_may_be_in_flight(in_flight):
    """Commits that come all the time, not in step: each flush takes a latency, so many flushes at once."""
    bench = Bench()
    log = device(bench.driver.clock, bytes_per_s=10**12, flushes_in_flight=in_flight)
    store = MemoryStore(bench.scheduler, flush_ns=log.duration_ns, flushes_in_flight=in_flight)
    for number in range(10_000):
        bench.scheduler.call_at(number * 100_000, lambda n=number: store.submit([("t", n, (b"x",))]) and None)
    bench.run(1.0)
    assert store.flushes == pytest.approx(in_flight * 1.0 / (LATENCY_US * 1e-6), rel=0.03)


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
            yield from store.submit([("t", thread, (b"x",))]).wait()
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
        yield from store.submit([("t", number, (b"x",))]).wait()
        waited_us.append(bench.now_us() - came_us)

    for number in range(4_000):
        bench.scheduler.call_at(
            number * 97_000, lambda n=number: bench.scheduler.spawn(committing(n), "commit") and None
        )
    bench.run(2.0)
    assert len(waited_us) == 4_000
    assert sum(waited_us) / len(waited_us) == pytest.approx(1.5 * LATENCY_US, rel=0.03)


# The costs of the broker's work


@pytest.fixture
def bench() -> Bench:
    return Bench()


def computer(bench: Bench, hardware: parameters.Parameters = PAPER) -> Computer:
    return Computer(bench.scheduler, bench.waits, SeededEntropy(1), hardware)


@pytest.mark.parametrize(
    "work, count, size_bytes, expected_us",
    [("send", 1, 0, 350), ("send", 1, 2_048, 358), ("send", 1, 512, 352), ("received_message", 10, 0, 800)],
)
def test_work_is_charged_each_time_and_for_each_kib(bench, work, count, size_bytes, expected_us):
    bench.spawn(computer(bench).cpu(work, count, size_bytes), "work")
    bench.run()
    assert bench.done == [("work", expected_us)]


def test_more_tasks_than_cores_take_turns(bench):
    hardware = computer(bench, PAPER.with_values({"count": 2}))

    def sending():
        yield from hardware.cpu("send")

    for name in "abc":
        bench.spawn(sending(), name)
    bench.run()
    assert bench.done == [("a", 350), ("b", 350), ("c", 700)]
    assert bench.waits.totals["SOS_SCHEDULER_YIELD"].signal_ns == 350_000


def test_a_row_is_looked_up_and_changed_on_a_core(bench):
    hardware = computer(bench)
    bench.spawn(hardware.latch(Page(5, 1, 16)), "touch")
    bench.run()
    touch_us = PAPER.latch.hold_us + PAPER.latch.shared_hold_us
    assert bench.done == [("touch", touch_us)]
    assert hardware.cores.busy_ns == touch_us * 1_000


def test_a_computer_without_latch_costs_has_no_latches(bench):
    hardware = computer(bench, parameters.read("this-machine"))
    assert hardware.latches is None
    assert list(hardware.latch(Page(5, 1, 16))) == []
    assert hardware.dispatchers == 1
    with pytest.raises(AssertionError, match="built without latches"):
        hardware.change_costs(PAPER)


def test_processor_time_is_reported_as_by_an_instance(bench):
    hardware = computer(bench)
    for _ in range(20):
        bench.spawn(hardware.cores.use(3_000_000), "work")
    bench.run()
    usage = hardware.usage()
    assert (usage.cpu_count, usage.process_user_time_ms, usage.process_kernel_time_ms) == (8, 60, 0)
    assert usage.host_platform == "a model in virtual time"
