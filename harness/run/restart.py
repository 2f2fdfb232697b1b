"""A restart of the target in the middle of a soak: the user does it, while messages are on their way.

The clients send until the target is gone. What they sent then waits in the transmission queues and in the target's
queue, so the accounts that follow say whether each message was processed once and in order across the restart.
"""

import contextlib
from collections.abc import Callable

from harness.definitions.units import counted
from harness.failures import MachineFailure
from harness.lab import dialog_pool, interruption, scripts
from harness.lab.instances import LabError
from harness.run.attempt import Equipment

LIMIT_S = 1800.0
POLL_S = 0.2
# A broker asks a peer that was gone again after 4 s, 8 s, ... 64 s.
MOVES_WITHIN_S = 180.0
_STARTED = "SELECT CONVERT(nvarchar(30), sqlserver_start_time, 126) FROM sys.dm_os_sys_info;"


class Restart:
    """Call `begins` while clients send, and `ends` after they have stopped."""

    def __init__(self, equipment: Equipment, tell: Callable[[str], None]) -> None:
        self._equipment = equipment
        self._tell = tell
        target = self._target = equipment.lab.target
        self._place = f"{target.name} ({target.host}:{target.port})"
        self._before = scripts.scalar(equipment.target, _STARTED)

    def begins(self) -> None:
        """Ask for the restart, and wait until the target is gone; raises LabError where nobody restarts it."""
        self._target.may_be_silent = True
        self._tell(f"restart {self._place} now, its service or its container: the soak waits {LIMIT_S / 60:.0f} min")
        self._wait(lambda: not self._answers_as_before(), "was not restarted")

    def ends(self) -> None:
        """Wait until the target is back, and messages reach it; raises LabError if it does not come back."""
        self._wait(self._is_back, "did not come back")
        self._target.may_be_silent = False
        waiting = self._untransmitted()
        self._tell(f"{self._place} is back; {counted(waiting, 'message')} wait for it in transmission queues")
        with contextlib.suppress(LabError):  # if none moves, the drain says why
            self._wait(lambda: not waiting or self._untransmitted() < waiting, "gets no message", MOVES_WITHIN_S)

    def _wait(self, is_so: Callable[[], bool], otherwise: str, limit_s: float = LIMIT_S) -> None:
        clock = self._equipment.lab.clock
        deadline_s = clock.now_s() + limit_s
        while not is_so():
            interruption.check()
            if clock.now_s() > deadline_s:
                self._target.may_be_silent = False
                raise LabError(f"{self._place} {otherwise} within {limit_s / 60:.0f} min")
            clock.sleep(POLL_S)

    def _answers_as_before(self) -> bool:
        try:
            return bool(scripts.scalar(self._equipment.target, _STARTED) == self._before)
        except MachineFailure:
            return False

    def _is_back(self) -> bool:
        """Whether it has started anew and lets the harness into its database; then it has a new connection."""
        try:
            connection = self._target.connect()
            has_started_anew = bool(scripts.scalar(connection, _STARTED) != self._before)
        except MachineFailure:
            return False
        if has_started_anew:
            self._equipment.target = connection
        else:
            connection.close()  # it is still ending
        return has_started_anew

    def _untransmitted(self) -> int:
        return sum(dialog_pool.transmission_queue_depth(connection) for connection in self._equipment.initiators)
