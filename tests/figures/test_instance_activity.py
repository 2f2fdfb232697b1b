import pandas as pd
import pytest

from harness.figures.instance_activity import scheduler_sentences, wait_sentences, waits
from harness.figures.reduced_run import Missing

CELLS = pd.DataFrame({"cell_id": ["busy", "idle", "broken"], "valid": [True, True, False]})


def counters(cell, instance, online, runnable, active):
    names = {"Online": online, "Runnable Tasks": runnable, "Active Workers": active, "Queued Tasks": 0.0}
    return [
        {"cell_id": cell, "instance": instance, "counter": f"Schedulers\\{name}", "mean": float(value)}
        for name, value in names.items()
    ]


def spinlock(cell, name, spins):
    return {
        "cell_id": cell,
        "instance": "target",
        "spinlock": name,
        "spins_per_s": spins / 2,
        "backoffs_per_s": spins / 100,
    }


def test_the_cell_with_most_runnable_tasks_is_described_and_cells_that_do_not_count_are_not():
    sampled = pd.DataFrame(
        [
            *counters("busy", "initiator-1", 8, 3.25, 40),
            *counters("idle", "initiator-1", 8, 0, 2),
            *counters("broken", "initiator-1", 8, 99, 99),
            *counters("busy", "target", 1, 0, 16),
        ]
    )
    spun = pd.DataFrame([spinlock("busy", f"LOCK_{number}", 1000 * number) for number in range(1, 5)])
    assert scheduler_sentences(sampled, spun, CELLS) == [
        "An initiator, 8 schedulers: runnable tasks that wait for a processor: at most 3.2, with 40 active workers (means of a cell's samples).",
        "The target, 1 scheduler: runnable tasks that wait for a processor: none, with 16 active workers (means of a cell's samples).",
        "The target, most spins (backoffs) a second of a spinlock: LOCK_4 2,000 (40), LOCK_3 1,500 (30), LOCK_2 1,000 (20).",
    ]


def test_a_run_without_samples_of_schedulers_says_so():
    others = pd.DataFrame([{"cell_id": "busy", "instance": "target", "counter": "SQL SENDs/sec", "mean": 1.0}])
    for table in (pd.DataFrame(), others):
        with pytest.raises(Missing, match="schedulers were not sampled"):
            scheduler_sentences(table, pd.DataFrame(), CELLS)


def test_waits_are_those_of_one_instance_at_a_time_and_of_one_wait():
    axes = {"server_version": "2022", "initiators": 2, "threads": 50, "payload_bytes": 100, "dialog_ratio": 1}
    cells = pd.DataFrame([{"cell_id": "c", "processed_per_s": 1000.0, "measured_s": 2.0, "valid": True, **axes}])
    waited = pd.DataFrame(
        [
            {"role": "initiator", "wait_type": "PAGELATCH_EX", "wait_time_ms": 40_000, "waiting_tasks": 8000},
            {"role": "initiator", "wait_type": "WRITELOG", "wait_time_ms": 10, "waiting_tasks": 8000},
            {"role": "target", "wait_type": "WRITELOG", "wait_time_ms": 3000, "waiting_tasks": 1000},
        ]
    ).assign(cell_id="c", **axes)
    assert wait_sentences(waited, cells) == [
        "Longest, every dialog used: initiators PAGELATCH_EX; target WRITELOG.",
        "At a time: an initiator, every dialog used, 10 tasks wait for PAGELATCH_EX, 5 ms each; the target, every dialog used, 1.5 tasks wait for WRITELOG, 3 ms each.",
    ]


def test_the_waits_of_a_run_of_one_cell_are_said_to_be_of_one_cell():
    cell = {"cell_id": "x", "server_version": "2022", "initiators": 5, "threads": 3, "dialog_ratio": 10}
    cells = pd.DataFrame([{**cell, "payload_bytes": 100, "processed_per_s": 5.0, "measured_s": 1.0, "valid": False}])
    waited = pd.DataFrame(
        [{"cell_id": "x", "role": "target", "wait_type": "WRITELOG", "dialog_ratio": 10, "wait_time_ms": 7}]
    )
    assert "the measured windows of 1 cell (1 of them not counting), without" in waits(waited, cells).subtitle
