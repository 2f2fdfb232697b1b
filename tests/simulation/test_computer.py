"""What the broker does, at the model's costs."""

from __future__ import annotations

import pytest

from harness.embedded.runtime.platform import Page
from harness.embedded.runtime.virtual import SeededEntropy
from harness.simulation import parameters
from harness.simulation.computer import Computer
from tests.simulation.hardware_fixture import Bench

PAPER = parameters.read("paper").with_values({"send_us": 350, "send_us_per_kib": 4, "received_message_us": 80})


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
    bench.spawn(computer(bench).platform.cpu(work, count, size_bytes), "work")
    bench.run()
    assert bench.done == [("work", expected_us)]


def test_more_tasks_than_cores_take_turns(bench):
    hardware = computer(bench, PAPER.with_values({"count": 2}))

    def sending():
        yield from hardware.platform.cpu("send")

    for name in "abc":
        bench.spawn(sending(), name)
    bench.run()
    assert bench.done == [("a", 350), ("b", 350), ("c", 700)]
    assert bench.waits.totals["SOS_SCHEDULER_YIELD"].signal_ns == 350_000


def test_a_row_is_looked_up_and_changed_on_a_core(bench):
    hardware = computer(bench)
    bench.spawn(hardware.platform.latch(Page(5, 1, 16)), "touch")
    bench.run()
    touch_us = PAPER.latch.hold_us + PAPER.latch.shared_hold_us
    assert bench.done == [("touch", touch_us)]
    assert hardware.cores.busy_ns == touch_us * 1_000


def test_a_computer_without_latch_costs_has_no_latches(bench):
    hardware = computer(bench, parameters.read("this-machine"))
    assert hardware.latches is None
    assert list(hardware.platform.latch(Page(5, 1, 16))) == []
    assert hardware.platform.dispatchers == 1
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
