"""The pulse of a lab: each instance is asked every second whether it still answers.

A process that is stopped, a machine that hangs and a network that swallows packets close no connection: whoever waits
for an answer waits as long as its statement may take. So silence is told, and after some more seconds the instance
counts as dead: `Lab.check` raises InstanceSilent, and so does every wait for a statement. An embedded instance is
killed then, which ends all calls that wait for it; calls to other servers are given up.

Seconds of silence are counted as they pass here, so that none fall on instances while this process is stopped or the
machine sleeps. Where a server blocks a statement, but answers others, the statement's own timeout ends it.
"""

import threading
from collections.abc import Callable

from harness.lab import interruption, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance, Lab

TOLD_AFTER_S = 5
DEAD_AFTER_S = 12  # before the timeout of a sign-in (`drivers.LOGIN_TIMEOUT_S`), which says less
BEAT_S = 1.0


class Pulse:
    """Asks the instances of a lab from its creation until `end`. A patient one only tells of silence."""

    def __init__(self, lab: Lab, tell: Callable[[str], None], *, is_patient: bool) -> None:
        self._lab = lab
        self._tell = tell
        self._is_patient = is_patient
        self._silent_s = {instance.name: 0 for instance in lab.instances}
        self._answered: dict[str, bool] = {}
        self._ended = threading.Event()
        interruption.watchers.append(self._check)
        for instance in lab.instances:
            threading.Thread(target=self._ask, args=(instance,), name=f"pulse of {instance.name}", daemon=True).start()
        threading.Thread(target=self._count, name="pulse", daemon=True).start()

    def end(self) -> None:
        """Tell nothing more, and end no more waits: whoever cleans up does without the instances that are dead."""
        if not self._ended.is_set():
            self._ended.set()
            interruption.watchers.remove(self._check)

    def _check(self) -> None:
        for instance in self._lab.instances:
            instance.check()

    def _ask(self, instance: Instance) -> None:
        opened: Connection | None = None
        while not self._ended.wait(BEAT_S):
            try:
                opened = opened or instance.connect("master", query_timeout_s=0)
                scripts.scalar(opened, "SELECT 1;")
                self._answered[instance.name] = True
            except Exception:  # a refusal is no answer: whoever needs the instance says why it refuses
                if opened:
                    interruption.close(opened)
                opened = None
        if opened:
            interruption.close(opened)

    def _count(self) -> None:
        while not self._ended.wait(BEAT_S):
            for instance in self._lab.instances:
                before_s = self._silent_s[instance.name]
                after_s = 0 if self._answered.pop(instance.name, False) else before_s + 1
                self._silent_s[instance.name] = after_s
                self._judge(instance, before_s, after_s)

    def _judge(self, instance: Instance, before_s: int, after_s: int) -> None:
        place = f"{instance.name} ({instance.host}:{instance.port})"
        if after_s == TOLD_AFTER_S:
            dead = "" if self._is_patient else f"; after {DEAD_AFTER_S} s it counts as dead"
            self._tell(f"{place} has not answered for {after_s} s{dead}")
        elif not after_s and before_s >= TOLD_AFTER_S:
            self._tell(f"{place} answers again, after {before_s} s")
        elif after_s >= DEAD_AFTER_S and not self._is_patient and not instance.may_be_silent and not instance.silence:
            instance.silence = f"{place} has not answered for {after_s} s"
            if self._lab.kind.can.instances_are_children and instance.process is not None:
                instance.silence += ": its process was killed"
                instance.process.stop(grace_s=0)
