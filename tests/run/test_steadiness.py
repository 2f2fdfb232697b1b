import math

import numpy as np
import pytest

from harness.run.steadiness import change, processed_error, rate_error

TRIALS = 2000


def trials(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(1000, 50, (TRIALS, 10))


def test_the_interval_of_independent_parts_holds_their_mean() -> None:
    covered = np.mean([abs(parts.mean() - 1000) <= rate_error(parts) * parts.mean() for parts in trials(1)])
    assert 0.88 < covered < 0.98


def test_a_rate_of_pieces_that_take_turns_is_known_well_and_one_that_wanders_badly() -> None:
    turns, wandering = [0, 200] * 5, [0] * 5 + [200] * 5
    of_independent_parts = 2.3 * np.std(turns, ddof=1) / math.sqrt(10) / 100
    assert rate_error(turns) == pytest.approx(of_independent_parts / 3)
    assert rate_error(wandering) > 2 * of_independent_parts


def test_nothing_counted_is_not_known() -> None:
    assert rate_error([0] * 10) == math.inf
    assert processed_error([0] * 10, [0] * 10) == math.inf


def test_what_is_processed_is_known_as_well_as_what_is_sent_but_for_what_is_left_over() -> None:
    pieces = [0, 0, 500, 0, 0, 0, 0, 400, 0, 0]
    assert rate_error(pieces) > 0.5
    assert processed_error([100] * 10, pieces) == pytest.approx(0.1)


def test_a_rate_without_a_trend_seldom_changes_and_a_step_is_seen() -> None:
    assert np.mean([bool(change("sent", parts, 1.0)) for parts in trials(2)]) < 0.1
    steps = trials(3) + np.repeat([0, 200], 5)
    assert np.mean([bool(change("sent", parts, 1.0)) for parts in steps]) > 0.9


def test_a_change_is_said_in_messages_a_second() -> None:
    assert change("sent", [100] * 5 + [200] * 5, 2.0) == ["the rate sent went from 500 to 1,000 messages/s"]
    assert change("sent", [100] * 5 + [104] * 5, 2.0) == []
    assert change("sent", [0] * 10, 2.0) == ["nothing was sent"]
