import os
import subprocess
import sys
import time

import psutil
import pytest

from harness.observe.machine_use import MachineTotals, machine_use, processor_s_of_tree


def totals(at_s: float, busy_s: float, own_s: float, stolen_s: float = 0.0) -> MachineTotals:
    return MachineTotals(at_s=at_s, busy_s=busy_s, own_s=own_s, stolen_s=stolen_s)


def test_what_is_neither_the_runs_nor_an_instances_belongs_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    use = machine_use(totals(0.0, 100.0, 10.0), totals(10.0, 122.0, 16.0, stolen_s=2.0), instances_s=8.0)
    assert (use.others_percent, use.steal_percent, use.processors) == (20.0, 5.0, 4)


def test_ticks_that_were_counted_at_different_moments_are_not_negative() -> None:
    assert machine_use(totals(0.0, 5.0, 1.0), totals(1.0, 5.0, 1.1), instances_s=0.0).others_percent == 0


@pytest.mark.process
def test_the_time_of_children_belongs_to_the_run_while_they_run_and_afterwards() -> None:
    before = processor_s_of_tree(psutil.Process())
    busy = "import time\nwhile time.process_time() < 0.2: pass\n"
    subprocess.run([sys.executable, "-c", busy], check=True)
    assert processor_s_of_tree(psutil.Process()) - before >= 0.15


def test_this_machine_has_totals() -> None:
    before = MachineTotals.now()
    while time.process_time() < 0.01:
        pass
    after = MachineTotals.now()
    assert after.busy_s >= before.busy_s > 0 and after.own_s >= before.own_s > 0
