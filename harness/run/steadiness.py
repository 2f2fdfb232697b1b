"""How well a rate is known, and whether it changed: from counts of messages in equal parts of a span.

Tolerances come from the spread of the parts, so a lab whose rates vary is not called unsteady for it; its rates are
known less well, and need a longer span. Neighbouring parts are no independent samples. Where a RECEIVE takes thousands
of messages, a full part follows an empty one, and the rate is known better than their spread alone says; where a rate
wanders, worse. Their correlation at lag 1 corrects for both: the variance of the mean is that of independent parts
times (1 + r) / (1 - r) (Law, Simulation Modeling and Analysis, 9.5.3; Bayley and Hammersley 1946).
"""

import math

import numpy as np
import numpy.typing as npt

# Smaller changes do not matter, however well they are known.
TOLERANCE = 0.05
# The window of a cell grows until its rate is known so well. What is left is in the spread from block to block.
RATE_ERROR_AIM = 0.1
# A rate that is not known so well in the end says nothing: the target received a few pieces, each as long as a part.
RATE_ERROR_MAX = 0.25
_T = 2.3  # the 97.5 % quantile of Student's t with 8 or 9 degrees of freedom
_CORRELATION_MAX = 0.8  # beyond which ten parts say little about the mean

Counts = npt.NDArray[np.float64]


def rate_error(counts: npt.ArrayLike) -> float:
    """Return half the 95 % interval of the rate, as a part of the rate; infinite where nothing was counted."""
    parts = np.asarray(counts, dtype=float)
    mean = float(parts.mean())
    return _half_interval(parts - mean, parts.size - 1, 1 / parts.size) / mean if mean > 0 else math.inf


def processed_error(sent: npt.ArrayLike, processed: npt.ArrayLike) -> float:
    """Return how well the rate processed is known, from the counts of both rates in the same parts.

    What is processed is what is sent less what the backlog grows by. So the rate is known at least as well as the rate
    sent and the share of it that was left over, however large the pieces in which the target receives.
    """
    sent_in_all, processed_in_all = float(np.sum(sent)), float(np.sum(processed))
    error = rate_error(processed)
    return min(error, rate_error(sent) + abs(sent_in_all - processed_in_all) / sent_in_all) if sent_in_all else error


def change(name: str, counts: npt.ArrayLike, span_s: float) -> list[str]:
    """Say how the rate `name` changed from the first half of the span to the second; empty if it did not, or if chance
    explains it.

    Chance is at least that of independent events: the difference of two counts varies by the root of their sum.
    """
    halves = np.array_split(np.asarray(counts, dtype=float), 2)
    first, second = (float(half.sum()) for half in halves)
    if not (first or second):
        return [f"nothing was {name}"]
    inside = np.concatenate([half - half.mean() for half in halves])
    by_chance = _half_interval(inside, inside.size - 2, 4 / inside.size) * inside.size / 2
    if abs(first - second) <= max(TOLERANCE * max(first, second), math.sqrt(first + second), by_chance):
        return []
    half_s = span_s / 2
    return [f"the rate {name} went from {first / half_s:,.0f} to {second / half_s:,.0f} messages/s"]


def _half_interval(deviations: Counts, freedom: int, share: float) -> float:
    """Return half the 95 % interval of a mean (`share` is one over its parts), or of a difference of two."""
    squares = float((deviations**2).sum())
    if not squares or freedom < 1:
        return 0.0
    lag_1 = float((deviations[1:] * deviations[:-1]).sum()) / squares
    correlation = min(_CORRELATION_MAX, max(-_CORRELATION_MAX, lag_1))
    return _T * math.sqrt(squares / freedom * share * (1 + correlation) / (1 - correlation))
