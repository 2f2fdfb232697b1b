import math

import pytest

from harness.reductions.circumstances import growth, machine, workers

pytestmark = pytest.mark.spark


def test_a_cell_has_the_largest_figures_of_its_workers(raw, attempts):
    figures = {"processor_percent": 40.0, "run_delay_percent": 1.0, "hub_lag_ms_max": 2.0, "between_calls_percent": 1.0}
    health = raw("health", [figures, figures | {"processor_percent": 60.0, "hub_lag_ms_max": 1.0}])
    (row,) = workers(health, attempts).collect()
    assert (row.worker_processor_percent_max, row.worker_hub_lag_ms_max) == (60.0, 2.0)


def test_a_delay_that_no_worker_knows_is_null(raw, attempts):
    figures = {"processor_percent": 40.0, "hub_lag_ms_max": 2.0, "between_calls_percent": 1.0}
    (row,) = workers(raw("health", [figures | {"run_delay_percent": math.nan}]), attempts).collect()
    assert row.worker_run_delay_percent_max is None


def test_the_machines_figures_are_kept_and_the_growth_of_files_added_up(raw, attempts):
    use = raw("machine", [{"load_average_1m": 2.5, "steal_percent": 0.125, "others_percent": 7.0}])
    (row,) = machine(use, attempts).collect()
    assert (row.load_average_1m, row.steal_percent, row.others_percent) == (2.5, 0.13, 7.0)
    (grown,) = growth(raw("file_io", [{"growth_bytes": 5}, {"growth_bytes": 7}]), attempts).collect()
    assert grown.growth_bytes == 12
