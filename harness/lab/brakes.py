"""Brakes for servers that others use too: a run ends before it takes what they need.

Each server of a user is asked every ten seconds (`sql/server/brakes.sql`). What is too much at two looks in a row ends
the run with what was seen; its cells stay, and it can go on later. What a server does not show brakes nothing, and is
told once. `brakes = false` in lab.toml is for servers that nobody else uses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from harness.definitions.units import counted
from harness.failures import MachineFailure
from harness.files.script_text import ScriptError
from harness.lab import interruption, scripts
from harness.lab.instances import Instance, Lab, LabError
from harness.lab.scripts import is_refusal

if TYPE_CHECKING:
    import pyodbc

LOOK_EVERY_S = 10.0
FREE_PERCENT_MIN = 5
LOG_USED_PERCENT_MAX = 95  # a log that may grow does so, and one whose checkpoints come in time is not so full twice
_DISKS = {"data": "data files", "log": "log", "tempdb": "tempdb"}


class Overload(MachineFailure):
    """A server, or others on it, can take no more; the message says what was seen."""


class Brakes:
    """Looks at the servers of a lab from its creation until `end`."""

    def __init__(self, lab: Lab, tell: Callable[[str], None]) -> None:
        self._tell = tell
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
        if self._reason:
            self.end()  # whoever cleans up is not interrupted again
            raise Overload(self._reason)

    def _watch(self, instance: Instance) -> None:
        opened: pyodbc.Connection | None = None
        before: frozenset[str] = frozenset()
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
            seen = dict(problems(row))
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


def problems(row: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is too much in a row of sql/server/brakes.sql: its name, and what was seen."""
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
