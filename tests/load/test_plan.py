"""Whether the load generator was the bottleneck."""

import pytest

from harness.load.plan import GeneratorHealth


def health(**changes):
    good = {"processor_percent": 40, "hub_lag_ms_max": 2, "time_in_calls": 0.99, "run_delay_percent": 3.0}
    return GeneratorHealth(initiator=2, **(good | changes))


def test_a_healthy_worker_has_no_complaints():
    assert health().complaints() == []


@pytest.mark.parametrize("changes", [{"call_ms": 2.5, "round_trip_ms": 1.9}, {"call_ms": 30.0, "round_trip_ms": 14.0}])
def test_a_network_that_takes_less_than_two_milliseconds_or_half_of_a_call_is_none(changes):
    assert health(**changes).complaints() == []
    assert health(call_ms=30, round_trip_ms=29, calls_without_pause=False).complaints() == []


@pytest.mark.parametrize(
    "symptom, complaint",
    [
        ({"processor_percent": 97.0}, "worker 2 used 97 % of a processor: it is the bottleneck"),
        ({"time_in_calls": 0.5}, "worker 2: its threads were in calls only 50% of the time"),
        ({"run_delay_percent": 12.4}, "worker 2: its threads waited 12 % of the time for a processor"),
        ({"hub_lag_ms_max": 2500.0}, "worker 2: its event loop was 2500 ms late"),
        (
            {"call_ms": 83.2, "round_trip_ms": 81.9},
            "worker 2: of the 83.2 ms of a call the network takes 81.9 ms: run the clients near the initiators",
        ),
    ],
)
def test_a_starved_worker_says_so(symptom, complaint):
    assert health(**symptom).complaints() == [complaint]
