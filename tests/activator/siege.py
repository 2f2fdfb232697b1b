"""Activators, readers and the server of a site, killed at random while messages are sent; then what became of them."""

import contextlib
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psutil
import pyodbc

from tests.activator.conftest import Site
from tests.processes import Child, children_of, is_alive
from tests.waiting import wait_until

SENDERS = 2
PAUSE_S = 0.02  # of a sender, between two messages


@contextmanager
def sending(site: Site) -> Iterator[set[bytes]]:
    """Send until the block ends. Yields the bodies that the server has confirmed so far; no two are the same."""
    confirmed: set[bytes] = set()
    stop = threading.Event()

    def send_on(sender: int) -> None:
        """A connection that breaks is opened again."""
        number = 0
        while not stop.is_set():
            with contextlib.suppress(pyodbc.Error), site.connect() as connection:
                handle = site.send(connection, last=False)
                while not stop.wait(PAUSE_S):
                    number += 1
                    body = b"%d-%d" % (sender, number)
                    connection.execute(f"SEND ON CONVERSATION '{handle}' (?);", body)
                    confirmed.add(body)
            stop.wait(0.1)

    threads = [threading.Thread(target=send_on, args=(sender,)) for sender in range(SENDERS)]
    for thread in threads:
        thread.start()
    try:
        yield confirmed
    finally:
        stop.set()
        for thread in threads:
            thread.join()


@dataclass
class Outcome:
    """What a siege has left."""

    kills: Counter[str] = field(default_factory=Counter)
    confirmed: int = 0
    lost: int = 0
    twice: int = 0  # processed more than once
    in_queues: int = 0
    starts: int = 0  # of readers
    processes: int = 0  # that still ran when the last activator had ended
    resident_mib: list[int] = field(default_factory=list)  # of activators, at each look

    @property
    def is_whole(self) -> bool:
        return not (self.lost or self.twice or self.in_queues or self.processes)


class Siege:
    """One activator at a time on a site whose file was written."""

    def __init__(self, site: Site, seed: int, pauses_s: Sequence[float]) -> None:
        self._site = site
        self._random = random.Random(seed)
        self._pauses_s = pauses_s
        self._outcome = Outcome()
        self._ever: list[psutil.Process] = []  # readers of activators that were killed

    def run(self, seconds: float, tell: Callable[[str], None]) -> Outcome:
        """Kill for so many seconds, each of the four kinds at least once, then wait until all is processed."""
        kinds = (self._kill_reader, self._kill_activator, self._end_activator, self._kill_server)
        first = self._random.sample(kinds, len(kinds))
        until = time.monotonic() + seconds
        self._activator = self._started()
        try:
            with sending(self._site) as confirmed:
                while first or time.monotonic() < until:
                    time.sleep(self._random.uniform(*self._pauses_s))  # how long a kill waits is the load
                    (first.pop() if first else self._random.choice(kinds))()
                    self._look()
                    left_s = max(0, until - time.monotonic())
                    tell(f"{len(confirmed):7} confirmed, {self._outcome.kills.total():4} kills, {left_s:5.0f} s left")
            self._account(confirmed)
        finally:
            self._activator.kill()
        return self._outcome

    def _started(self) -> Child:
        said = len(self._site.lines("reading"))
        activator = self._site.activator("--with-parent", stdin=subprocess.PIPE)
        self._site.wait_for_line("reading", count=said + 1)
        return activator

    def _kill_reader(self) -> None:
        children = wait_until(lambda: children_of(self._activator.pid))
        self._random.choice(children).kill()
        self._outcome.kills["readers"] += 1

    def _kill_activator(self) -> None:
        self._ever += children_of(self._activator.pid)
        self._activator.kill()
        self._activator.wait()
        self._outcome.kills["activators"] += 1
        self._activator = self._started()

    def _end_activator(self) -> None:
        self._ever += children_of(self._activator.pid)
        self._activator.send_signal(signal.SIGTERM)
        self._activator.wait()
        self._outcome.kills["activators, with SIGTERM"] += 1
        self._activator = self._started()

    def _kill_server(self) -> None:
        again = len(self._site.lines("connected again"))
        self._site.server.kill()
        self._site.start()
        self._site.wait_for_line("connected again", count=again + 1)
        self._outcome.kills["servers"] += 1

    def _look(self) -> None:
        with contextlib.suppress(psutil.Error):
            self._outcome.resident_mib.append(psutil.Process(self._activator.pid).memory_info().rss >> 20)

    def _account(self, confirmed: set[bytes]) -> None:
        outcome, site = self._outcome, self._site
        queued = "SELECT (SELECT COUNT(*) FROM dbo.Incoming) + (SELECT COUNT(*) FROM dbo.Activation);"
        with site.connect() as connection:
            with contextlib.suppress(AssertionError):  # what is not reached is counted
                wait_until(lambda: not connection.execute(queued).fetchval())
                wait_until(lambda: not children_of(self._activator.pid))
            outcome.in_queues = connection.execute(queued).fetchval()
            stored = Counter(site.stored(connection))
        outcome.confirmed = len(confirmed)
        outcome.lost = len(confirmed - stored.keys())
        outcome.twice = sum(count > 1 for count in stored.values())
        outcome.starts = len(site.lines(") started"))
        self._ever += children_of(self._activator.pid)
        self._activator.send_signal(signal.SIGTERM)
        self._activator.wait()
        outcome.processes = sum(map(is_alive, self._ever))
