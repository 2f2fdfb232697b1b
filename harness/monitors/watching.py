"""The live view: a look each second, which goes on when a database vanishes or a server stops answering."""

from __future__ import annotations

import statistics
import time
from collections import deque
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from harness.failures import MachineFailure
from harness.lab import interruption
from harness.monitors import showing
from harness.monitors.reading import LOOKS_SHARE, Reader
from harness.monitors.state import Server

_SLICE_S = 0.1  # of a pause, after which a signal is noticed
_COSTS_KEPT = 5  # of the last looks: what they usually cost, as one may have met a machine that stalled


def look_twice(readers: Sequence[Reader], *, apart_s: float) -> list[Server]:
    """Return what servers show now, with rates since a first look."""
    for reader in readers:
        reader.look()
    _pause(apart_s)
    return [reader.look(thoroughly=True) for reader in readers]


def watch(
    readers: Sequence[Reader], console: Console, *, every_s: float, is_over: Callable[[], bool] = lambda: False
) -> None:
    """Show servers until Ctrl-C, or until `is_over`. Raises MachineFailure or UsageFailure if the first look fails."""
    for reader in readers:
        reader.look()
    costs_s: deque[float] = deque(maxlen=_COSTS_KEPT)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while not is_over():
            begun = time.monotonic()
            shown, cost_s = frame(readers, console)
            live.update(shown, refresh=True)
            costs_s.append(cost_s)
            period_s = max(every_s, statistics.median(costs_s) / LOOKS_SHARE)
            _pause(begun + period_s - time.monotonic())


def frame(readers: Sequence[Reader], console: Console) -> tuple[RenderableType, float]:
    """Return one look at servers as the terminal shows it, and what it has cost the dearest of them in seconds."""
    looks = [_look(reader) for reader in readers]
    servers = [look for look in looks if isinstance(look, Server)]
    height = console.height // len(readers) - 1
    parts: list[RenderableType] = []
    for look in looks:
        if isinstance(look, Server):
            parts.append(Rule(f"{look.name} {look.address}  {time.strftime('%H:%M:%S')}"))
            parts.append(showing.view(look, console, servers, height=height))
        else:
            parts.append(Text(f"no answer, trying again: {look}", style="red"))
    return Group(*parts), max((server.cost_s for server in servers), default=0.0)


def _look(reader: Reader) -> Server | MachineFailure:
    try:
        return reader.look()
    except MachineFailure as error:
        return error


def _pause(seconds: float) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        interruption.check()
        time.sleep(min(left, _SLICE_S))
    interruption.check()
