"""The live view: a look each second, which goes on when a database vanishes or a server stops answering."""

import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial

from rich.console import Group, RenderableType
from rich.live import Live
from rich.rule import Rule

from harness.failures import MachineFailure
from harness.lab import interruption
from harness.monitors import showing
from harness.monitors.reading import LOOKS_SHARE, Reader
from harness.monitors.state import Server
from harness.output.reporting import SafeConsole, styled

_SLICE_S = 0.1  # of a pause, after which a signal is noticed
_PATIENCE_S = 2.0  # with a server that does not answer
_COSTS_KEPT = 5  # of the last looks: what they usually cost, as one may have met a machine that stalled


def look_twice(readers: Sequence[Reader], *, apart_s: float) -> list[Server]:
    """Return what servers show now, with rates since a first look."""
    for reader in readers:
        reader.look()
    _pause(apart_s)
    return [reader.look(thoroughly=True) for reader in readers]


class Watched:
    """A server, and the look at it that is under way: one that does not answer keeps no other from being shown."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.under_way: Future[Server | MachineFailure] | None = None
        self._asked_at = 0.0
        self.shown: RenderableType = ""  # of the last look
        self.address = reader.address
        self.server: Server | None = None  # of the last look; None: it has not answered

    @property
    def silent_s(self) -> float:
        """How long the server has not answered."""
        is_awaited = self.under_way is not None and not self.under_way.done()
        return time.monotonic() - self._asked_at if is_awaited else 0.0

    def look(self) -> Future[Server | MachineFailure]:
        """Begin a look, unless one is under way."""
        if self.under_way is None:
            self._asked_at = time.monotonic()
            self.under_way = Future()
            interruption.start(partial(_look, self._reader), self.under_way)
        return self.under_way

    def found(self) -> Server | str:
        """Return what the look found, or why there is nothing."""
        assert self.under_way is not None
        self.server = None
        if not self.under_way.done():
            return f"no answer for {self.silent_s:.0f} s, shown as it was: {self._reader.place}"
        look, self.under_way = self.under_way.result(), None
        if isinstance(look, Server):
            self.server = look
            return look
        self.shown = ""
        return f"no answer, trying again: {look}"


def watch(
    readers: Sequence[Reader],
    console: SafeConsole,
    *,
    every_s: float,
    is_over: Callable[[], bool] = lambda: False,
    on_looks: Callable[[Mapping[str, Server | None]], None] = lambda _: None,
) -> None:
    """Show servers until Ctrl-C, or until `is_over`. Raises MachineFailure or UsageFailure if the first look fails.

    `on_looks` gets each look at the servers, by their addresses; None for one that has not answered.
    """
    for reader in readers:
        reader.look()
    watched = [Watched(reader) for reader in readers]
    costs_s: deque[float] = deque(maxlen=_COSTS_KEPT)
    try:
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while not is_over():
                begun = time.monotonic()
                view, cost_s = frame(watched, console)
                live.update(view, refresh=True)
                on_looks({look.address: look.server for look in watched})
                costs_s.append(cost_s)
                period_s = max(every_s, statistics.median(costs_s) / LOOKS_SHARE)
                _pause(begun + period_s - time.monotonic())
    finally:
        # A process whose threads are inside a driver when it ends may crash.
        interruption.cancel([server.under_way for server in watched if server.under_way is not None])


def frame(watched: Sequence[Watched], console: SafeConsole) -> tuple[RenderableType, float]:
    """Return one look at servers as the terminal shows it, and what it has cost the dearest of them in seconds."""
    _await(watched)
    looks = [one.found() for one in watched]
    servers = [look for look in looks if isinstance(look, Server)]
    height = console.height // len(watched) - 1
    parts: list[RenderableType] = []
    for server, look in zip(watched, looks, strict=True):
        if isinstance(look, Server):
            head = Rule(f"{look.name} {look.address}  {time.strftime('%H:%M:%S')}")
            server.shown = Group(head, showing.view(look, console, servers, height=height))
        else:
            parts.append(styled(look, "red"))
        parts.append(server.shown)
    return Group(*parts), max((server.cost_s for server in servers), default=0.0)


def _look(reader: Reader) -> Server | MachineFailure:
    try:
        return reader.look()
    except MachineFailure as error:
        return error


def _await(watched: Sequence[Watched]) -> None:
    """Look at all, and wait for those that may still answer."""
    looks = {server: server.look() for server in watched}
    while wait([look for server, look in looks.items() if server.silent_s < _PATIENCE_S], timeout=_SLICE_S).not_done:
        interruption.check()


def _pause(seconds: float) -> None:
    end_s = time.monotonic() + seconds
    while (left := end_s - time.monotonic()) > 0:
        interruption.check()
        time.sleep(min(left, _SLICE_S))
    interruption.check()
