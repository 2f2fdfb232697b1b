"""Looks of a sweep's cells, made of what its observers and records say."""

import pytest

from harness.observe.cell_looks import CellLooks, window_charts
from harness.observe.observers import FAILURE, LATCH_SAMPLES, Sample

S = 1_000_000_000
SENDS, ENQUEUED = "Broker Statistics\\SQL SENDs/sec", "Broker Statistics\\Enqueued Messages/sec"


def initiator(sent: float) -> list[Sample]:
    return [Sample("transmission_queue_depth", "", 3), Sample("counter", SENDS, sent)]


def target(enqueued: float) -> list[Sample]:
    return [
        Sample("queue_depth", "TargetQueue", 5),
        Sample("queue_monitor", "TargetQueue\\RECEIVES_OCCURRING", 1),
        Sample("counter", ENQUEUED, enqueued),
    ]


def test_samples_of_one_moment_are_a_look_which_the_next_one_ends() -> None:
    looks = CellLooks()
    assert looks.sampled("target", 10 * S, target(90)) is None
    assert looks.sampled("initiator-1", 10 * S + 1, initiator(100)) is None
    first = looks.sampled("target", 11 * S, target(290))
    assert first is not None and first.at_s == 10
    assert first.charts["depth"]["initiators' transmission queues"] == 3 and "rate" not in first.charts
    assert first.monitors == {"target TargetQueue": "RECEIVES_OCCURRING"}
    looks.sampled("initiator-1", 11 * S + 1, initiator(350))
    second = looks.sampled("target", 12 * S, target(500))
    assert second is not None and second.charts["rate"] == {"sent": 250, "processed": 200}


def test_an_instance_whose_sample_is_late_keeps_its_last_rate() -> None:
    looks = CellLooks()
    for at_s, sent in ((10, 100), (11, 350)):
        looks.sampled("target", at_s * S, target(0))
        looks.sampled("initiator-1", at_s * S, initiator(sent))
    for at_s in (12, 13):
        look = looks.sampled("target", at_s * S, target(0))
        assert look is not None and look.charts["rate"]["sent"] == 250


def test_rates_are_not_computed_over_a_moment() -> None:
    looks = CellLooks()
    for at_ns, enqueued in ((0, 0), (S, 300), (S + S // 100, 310)):
        looks.sampled("target", at_ns, target(enqueued))
    assert looks.recorded({}, range(S)).charts["rate"]["processed"] == pytest.approx(310 / 1.01)


def test_the_first_look_of_a_cell_has_no_rates_over_the_pause_before_it() -> None:
    looks = CellLooks()
    for at_s, count in ((9, 0), (10, 100), (60, 90_000), (61, 90_200)):
        look = looks.sampled("target", at_s * S, target(count))
        looks.sampled("initiator-1", at_s * S, initiator(count))
    assert look is not None and look.at_s == 60 and "rate" not in look.charts
    look = looks.recorded({}, range(60 * S, 62 * S))
    assert look.at_s == 61 and look.charts["rate"] == {"sent": 200, "processed": 200}


def test_an_instance_that_does_not_answer_is_named_once_a_look() -> None:
    looks = CellLooks()
    for at_s in (1, 2):
        look = looks.sampled("target", at_s * S, [Sample(FAILURE, "connection refused", 1.0)])
        looks.sampled("initiator-1", at_s * S, initiator(0))
    assert look is not None and look.failures == ["target: connection refused"]
    assert look.charts.keys() == set()


def test_the_last_look_of_a_cell_has_the_waits_latches_and_latencies_of_its_window() -> None:
    records = {
        "waits": {
            "instance": ["target", "initiator-1", "initiator-2"],
            "wait_type": ["WRITELOG", "WRITELOG", "WRITELOG"],
            "wait_time_ms": [100, 300, 500],
        },
        "samples": {
            "instance": ["initiator-1", "initiator-1", "initiator-2", "target"],
            "metric": [LATCH_SAMPLES, LATCH_SAMPLES, LATCH_SAMPLES, "queue_depth"],
            "value": [1.0, 6.0, 4.0, 99.0],
        },
        "latch_waits": {"instance": ["initiator-1"] * 5, "object_name": ["sys.sysdesend"] * 4 + [""]},
        "deliveries": {
            "sent_at_ns": [0, S, 2 * S, S],
            "processed_at_ns": [S // 2, S + 1_000_000, 2 * S + 3_000_000, 9 * S],
        },
    }
    assert window_charts(records, range(S, 3 * S)) == {
        "target_waits": {"WRITELOG": 50},
        "initiator_waits": {"WRITELOG": 400},
        "initiator_latches": {"sys.sysdesend": 0.4, "unknown object": 0.1},
        "end_to_end_ms": {"median": 2, "95th percentile": pytest.approx(2.9), "longest": 3},
    }
    looks = CellLooks()
    looks.sampled("target", S, target(0))
    look = looks.recorded(records, range(S, 3 * S))
    assert look.at_s == 1 and look.charts["target_waits"] == {"WRITELOG": 50} and "readers" in look.charts
