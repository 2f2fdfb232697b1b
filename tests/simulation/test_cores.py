"""Cores against queueing theory: first come first served, M/D/1, M/M/k, utilisation, quanta, signal waits."""

from __future__ import annotations

import math
import random

import pytest

from harness.embedded.runtime.tasks import Delay
from harness.simulation.cores import QUANTUM_NS, Cores
from tests.simulation.hardware_fixture import US, Bench, poisson_arrivals_us

SERVICE_US = 100
CUSTOMERS = 20_000


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
