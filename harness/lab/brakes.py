"""Brakes for servers that others use too: a run ends before it takes what they need.

Each server of a user is asked every ten seconds (`sql/server/brakes.sql`). What is too much at two looks in a row ends
the run with what was seen; its cells stay, and it can go on later. What a server does not show brakes nothing, and is
told once. `brakes = false` in lab.toml is for servers that nobody else uses: a load test is there to use processors.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.definitions.units import counted
from harness.failures import MachineFailure
from harness.files.lab_file import LabFile
from harness.files.script_text import ScriptError
from harness.lab import interruption, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance, Lab, LabError
from harness.lab.scripts import is_refusal

LOOK_EVERY_S = 10.0
FREE_PERCENT_MIN = 5
LOG_USED_PERCENT_MAX = 95  # a log that may grow does so, and one whose checkpoints come in time is not so full twice
_DISKS = {"data": "data files", "log": "log", "tempdb": "tempdb"}


class Overload(MachineFailure):
    """A server, or others on it, can take no more; the message says what was seen."""


class Brakes:
    """Looks at the servers of a lab from its creation until `end`."""

    def __init__(self, lab: Lab, file: LabFile, tell: Callable[[str], None]) -> None:
        self._file = file
        self._tell = tell
        # A run opens its lab anew for each block, and reads its file once.
        self._ends_at_s = file.read_at_s + 3600 * file.hours_max
        self._reason = ""
        self._ended = threading.Event()
        interruption.watchers.append(self._check)
        for instance in lab.instances:
            name = f"brakes of {instance.name}"
            threading.Thread(target=self._watch, args=(instance,), name=name, daemon=True).start()

    def end(self) -> None:
        if not self._ended.is_set():
            self._ended.set()
            interruption.watchers.remove(self._check)

    def _check(self) -> None:
        if time.monotonic() > self._ends_at_s:
            name = self._file.path.name
            self._reason = (
                f"the run has taken {self._file.hours_max:g} h, which is hours_max in {name}: --resume goes on"
            )
        if self._reason:
            self.end()  # whoever cleans up is not interrupted again
            raise Overload(self._reason)

    def _watch(self, instance: Instance) -> None:
        opened: Connection | None = None
        before: frozenset[str] = frozenset()
        used = ProcessorShare()
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                opened = opened or instance.connect()
                [row] = scripts.rows(opened, "server/brakes.sql", {})
            except ScriptError as error:
                if is_refusal(error):
                    self._tell(f"{instance.name} does not show its load, so nothing brakes it there: {error}")
                    break
                if opened:  # its session was ended, as with every new pool; whether the server lives the pulse says
                    interruption.close(opened)
                opened = None
                continue
            except LabError:
                continue
            seen = dict(problems(row, used.percent(row), self._file.processor_percent_max))
            if lasting := before & seen.keys():
                what = "; ".join(seen[name] for name in sorted(lasting))
                self._reason = (
                    f"{instance.name} ({instance.host}:{instance.port}) can take no more: {what}. The run was stopped; "
                    "mend it, choose smaller cells (--cells), or if nobody else uses the servers, brakes = false in "
                    "lab.toml"
                )
            before = frozenset(seen)
        if opened:
            interruption.close(opened)


class ProcessorShare:
    """What a server used of its processors since the look before."""

    def __init__(self) -> None:
        self._before: tuple[float, int] | None = None  # when, and the processor time in milliseconds

    def percent(self, row: Mapping[str, Any]) -> float:
        now = time.monotonic(), int(row["processor_time_ms"])
        before, self._before = self._before or now, now
        passed_ms = 1000 * (now[0] - before[0]) * row["processors"]
        return 100 * (now[1] - before[1]) / passed_ms if passed_ms else 0.0


def problems(
    row: Mapping[str, Any], processor_percent: float = 0.0, processor_percent_max: int = 100
) -> Iterator[tuple[str, str]]:
    """Yield what is too much in a row of sql/server/brakes.sql: its name, and what was seen."""
    if processor_percent > processor_percent_max:
        yield "processors", f"it uses {processor_percent:.0f} % of its processors (processor_percent_max)"
    for name, words in _DISKS.items():
        free = row[f"{name}_free_percent"]
        if free is not None and free < FREE_PERCENT_MIN:
            yield name, f"{free} % of the disk of its {words} is free"
    if (row["log_used_percent"] or 0) > LOG_USED_PERCENT_MAX:
        yield "log used", f"its log is {row['log_used_percent']} % full"
    if row["without_worker"]:
        yield "workers", f"{counted(row['without_worker'], 'task')} wait for a worker (THREADPOOL)"
    if row["others_blocked"]:
        yield "locks", f"{counted(row['others_blocked'], 'session')} of others wait for locks of the harness"
