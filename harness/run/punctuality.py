"""How well the clients of an open loop kept to their intended starts within the measured window."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from harness.definitions.load_model import LATE_NS, OpenLoop
from harness.load.plan import Share

DEVIATION_MAX = 0.02  # of the sends that were due


class Calls(NamedTuple):
    """The calls of one worker's clients, in nanoseconds since 1970."""

    intended: npt.NDArray[np.int64]
    started: npt.NDArray[np.int64]
    returned: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Punctuality:
    """The sends that were intended to start in the window; all is 0 in the closed loop."""

    rate_per_s: float = 0.0  # asked, of each initiator
    due: int = 0
    late: int = 0  # started more than LATE_NS after their intended start
    missed: int = 0  # never started: the cell ended before a thread was free

    @classmethod
    def of(cls, cell: Mapping[str, Any]) -> Self:
        """Return that of a cell's record."""
        return cls(cell["rate_per_s"], cell["due_calls"], cell["late_calls"], cell["missed_calls"])

    def columns(self) -> dict[str, Any]:
        """Return the values of the cell's record."""
        return {
            "rate_per_s": self.rate_per_s,
            "due_calls": self.due,
            "late_calls": self.late,
            "missed_calls": self.missed,
        }

    def is_kept(self, calls_made: int) -> bool:
        """Whether as many calls returned in the window as were due: neither fewer, nor more because sends were late
        before."""
        most = DEVIATION_MAX * self.due
        return calls_made >= self.due - most and (calls_made <= self.due + most or self.late <= most)

    def complaint(self, calls_made: int, window_s: float, initiators: int) -> str:
        """Say that the rate was not kept, and what was made; else return nothing."""
        if not self.rate_per_s or self.is_kept(calls_made):
            return ""
        rate_per_s = calls_made / window_s / initiators
        instead = "caught up at " if calls_made > self.due else "made "
        return (
            f"the clients did not keep to {self.rate_per_s:,g}/s per initiator, but {instead}{rate_per_s:,.0f}/s: "
            f"{self.late:,} of {self.due:,} sends started late, {self.missed:,} never; use more threads or a lower rate"
        )


IN_TIME = Punctuality()


def punctuality(
    open_loop: OpenLoop, calls: Mapping[Share, Calls], barriers_at_ns: Mapping[Share, int], block: int, window: range
) -> Punctuality:
    """Compare the calls of each worker with its schedule, which begins when its barrier opens."""
    due = late = started = 0
    for share, worker_calls in calls.items():
        from_ns, to_ns = (at_ns - barriers_at_ns[share] for at_ns in (window.start, window.stop))
        due += open_loop.due(share.initiator, block, from_ns, to_ns, number=share.number, of=share.of)
        inside = (worker_calls.intended >= window.start) & (worker_calls.intended < window.stop)
        started += int(inside.sum())
        late += int((inside & (worker_calls.started - worker_calls.intended > LATE_NS)).sum())
    return Punctuality(open_loop.rate_per_s, due, late, due - started)
