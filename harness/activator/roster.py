"""Which processes of one queue run, and how many more to start now. Moments are seconds of one clock."""

from collections import deque

PAUSE_S, PAUSE_MAX_S = 1.0, 60.0  # before what has crashed is started again; doubles with each crash in a row
STEADY_S = 60.0  # a process that crashes after so long is no further crash in a row
_REMEMBERED = 64  # notifications; one arrives again only right after a connection was lost


class Roster:
    """The processes of one queue: at least `least` and at most `most`.

    `owed` counts starts that are due. A notification owes one, also where it finds `most` running: the process that
    ends next may have looked into the queue before the message arrived. A crash owes one too.
    """

    def __init__(self, least: int, most: int) -> None:
        assert 0 <= least <= most >= 1
        self.least, self.most = least, most
        self.owed = 1  # for what the last activator may have left undone
        self.running: dict[int, float] = {}  # process -> moment of its start
        self.not_before_s = 0.0  # no start earlier, after a crash
        self._crashes = 0  # in a row
        self._seen: deque[str] = deque(maxlen=_REMEMBERED)

    def notified(self, identity: str) -> bool:
        """Note a notification; False for one that has arrived before."""
        if identity in self._seen:
            return False
        self._seen.append(identity)
        self.owed = max(self.owed, 1)
        return True

    def due(self, now_s: float) -> int:
        """Return how many processes to start now."""
        if now_s < self.not_before_s:
            return 0
        return max(0, min(self.most - len(self.running), max(self.owed, self.least - len(self.running))))

    def started(self, process: int, now_s: float) -> None:
        self.running[process] = now_s
        self.owed = max(0, self.owed - 1)

    def ended(self, process: int, now_s: float, *, crashed: bool) -> None:
        began_s = self.running.pop(process)
        if crashed:
            self._crash(0 if now_s - began_s >= STEADY_S else self._crashes, now_s)
        else:
            self._crashes = 0

    def not_started(self, now_s: float) -> None:
        """Note that the machine has refused to start a process. It stays owed."""
        self._crash(self._crashes, now_s)

    def _crash(self, crashes_before: int, now_s: float) -> None:
        self.not_before_s = now_s + min(PAUSE_MAX_S, PAUSE_S * 2.0 ** min(crashes_before, 10))
        self._crashes = crashes_before + 1
        self.owed = min(self.most, self.owed + 1)
