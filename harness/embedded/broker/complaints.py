"""Lines of the error log about what peers send: a flood is counted, not written."""

from collections import Counter

from harness.embedded.broker.environment import Environment
from harness.embedded.runtime.tasks import SECOND

PAUSE_NS = 60 * SECOND  # between two lines of a kind
KINDS_MAX = 100  # a kind may name what a peer sent


class Complaints:
    def __init__(self, environment: Environment) -> None:
        self._clock = environment.clock
        self._error_log = environment.error_log
        self._silent_until_ns: dict[str, int] = {}
        self._left_out: Counter[str] = Counter()

    def write(self, kind: str, text: str) -> str:
        """Write one line of a kind a minute, with how many were left out; return the line, empty if this one is."""
        now_ns = self._clock.now_ns
        if kind not in self._silent_until_ns and len(self._silent_until_ns) >= KINDS_MAX:
            kind = ""
        if now_ns < self._silent_until_ns.get(kind, now_ns):
            self._left_out[kind] += 1
            return ""
        self._silent_until_ns[kind] = now_ns + PAUSE_NS
        if count := self._left_out.pop(kind, 0):
            text = f"{text} ({count} more of this kind since the last such line)"
        self._error_log.write(text)
        return text
