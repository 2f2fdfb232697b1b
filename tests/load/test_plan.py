"""Whether the load generator was the bottleneck."""

import pytest

from harness.load.plan import GeneratorHealth


def health(**changes):
    good = {"processor_percent": 40, "hub_lag_ms_max": 2, "time_in_calls": 0.99, "run_delay_percent": 3.0}
    return GeneratorHealth(initiator=2, **(good | changes))


def test_a_healthy_worker_has_no_complaints():
    assert health().complaints() == []


@pytest.mark.parametrize(
    "symptom, complaint",
    [
        ({"processor_percent": 97.0}, "worker 2 used 97 % of a processor: it is the bottleneck"),
        ({"time_in_calls": 0.5}, "worker 2: its threads were in calls only 50% of the time"),
        ({"run_delay_percent": 12.4}, "worker 2: its threads waited 12 % of the time for a processor"),
        ({"hub_lag_ms_max": 2500.0}, "worker 2: its event loop was 2500 ms late"),
    ],
)
def test_a_starved_worker_says_so(symptom, complaint):
    assert health(**symptom).complaints() == [complaint]
