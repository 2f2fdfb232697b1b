"""The activator itself: receives notifications, starts programs, watches them, and ends them."""

import contextlib
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.activator.config import Config, WatchedQueue
from harness.activator.event import Activation
from harness.activator.notifications import Notifications, NotificationsLost
from harness.activator.roster import Roster
from harness.lab import interruption
from harness.lab.drivers import Driver
from harness.lab.processes import Child, stop_all

Tell = Callable[[str], None]

GRACE_S = 10.0  # for programs to finish what they have received, before they are killed
_RETRY_S, _RETRY_MAX_S = 1.0, 30.0  # before a lost server is asked again; doubles
_LOOK_EVERY_S = 0.2


@dataclass
class _Watched:
    """A queue with its processes."""

    queue: WatchedQueue
    roster: Roster
    children: dict[int, Child] = field(default_factory=dict)


class Supervisor:
    """Use it from the main thread: children die with the thread that started them."""

    def __init__(self, config: Config, driver: Driver, tell: Tell) -> None:
        self._config, self._driver, self._tell = config, driver, tell
        self._watched = {
            queue.full_name.lower(): _Watched(queue, Roster(queue.least, queue.most)) for queue in config.queues
        }
        self._unknown: set[str] = set()  # queues that the file does not name; told once
        self._notifications: Notifications | None = None
        self._retry_at_s = 0.0
        self._retry_pause_s = _RETRY_S

    def run(self, *, with_parent: bool = False) -> None:
        """Run until SIGINT or SIGTERM, which raise KeyboardInterrupt, or with a parent until standard input ends.

        Raises NotificationsLost if the first connection or its RECEIVE fails. Later ones are tried again.
        """
        with interruption.noted():
            try:
                self._notifications = Notifications(self._config, self._driver)
                server = self._config.server
                for queue in self._config.queues:
                    if doubt := self._notifications.doubt(queue):
                        self._tell(doubt)
                self._receive(self._notifications)
                self._tell(f"reading {server.notification_queue} at {server.host}:{server.port}; Ctrl-C ends this")
                while not (with_parent and _stdin_has_ended()):
                    interruption.check()
                    self._look_after_processes()
                    self._turn()
            finally:
                self._stop()

    def _turn(self) -> None:
        """Receive once, or try to connect, or wait a moment for that."""
        try:
            if self._notifications is not None:
                self._receive(self._notifications)
            elif time.monotonic() >= self._retry_at_s:
                self._notifications = Notifications(self._config, self._driver)
                self._tell("connected again")
                self._retry_pause_s = _RETRY_S
            else:
                time.sleep(_LOOK_EVERY_S)
        except NotificationsLost as error:
            self._lost(error)

    def _receive(self, notifications: Notifications) -> None:
        """Do what one transaction asks for, then commit it."""
        received = notifications.receive()
        for remark in received.remarks:
            self._tell(remark)
        for activation in received.activations:
            self._note(activation)
        if received.activations:
            self._look_after_processes()
        notifications.commit()

    def _note(self, activation: Activation) -> None:
        full_name = f"{activation.database}.{activation.queue}"
        watched = self._watched.get(full_name.lower())
        if watched is not None:
            watched.roster.notified(activation.posted_at)
        elif full_name not in self._unknown:
            self._unknown.add(full_name)
            self._tell(f"no [[queue]] names {full_name[:200]!r}, so its notifications are ignored")

    def _lost(self, error: NotificationsLost) -> None:
        if self._notifications is not None:
            self._notifications.close()
            self._notifications = None
            self._retry_pause_s = _RETRY_S
        self._tell(f"{error}; next try in {self._retry_pause_s:g} s")
        self._retry_at_s = time.monotonic() + self._retry_pause_s
        self._retry_pause_s = min(_RETRY_MAX_S, 2 * self._retry_pause_s)

    # Processes

    def _look_after_processes(self) -> None:
        for watched in self._watched.values():
            for pid, child in list(watched.children.items()):
                if not child.is_alive():
                    self._note_end(watched, pid, child)
            for _ in range(watched.roster.due(time.monotonic())):
                self._start(watched)

    def _note_end(self, watched: _Watched, pid: int, child: Child) -> None:
        del watched.children[pid]
        crashed = child.exit_code != 0
        death = child.death() if crashed else f"{child.name} (process {pid}) ended with exit code 0"
        child.stop()  # closes the pipe
        _end_group(pid)
        watched.roster.ended(pid, time.monotonic(), crashed=crashed)
        pause_s = max(0.0, watched.roster.not_before_s - time.monotonic())
        restart = f"; started again in {pause_s:.0f} s" if crashed else ""
        self._tell(f"{death}{restart}")

    def _start(self, watched: _Watched) -> None:
        queue = watched.queue
        try:
            child = Child(
                f"reader of {queue.full_name}",
                queue.command,
                log=self._config.logs / f"{queue.full_name}.log",
                environment=self._config.environment(queue, self._driver.kind),
            )
        except OSError as error:
            watched.roster.not_started(time.monotonic())
            self._tell(f"{queue.command[0]} cannot be started for {queue.full_name}: {error.strerror or error}")
            return
        watched.children[child.pid] = child
        watched.roster.started(child.pid, time.monotonic())
        running = f"{len(watched.children)} of at most {queue.most}"
        self._tell(f"reader of {queue.full_name} (process {child.pid}) started, {running}")

    def _stop(self) -> None:
        """End all processes, then the transaction: they may use a moment to finish what they have received."""
        children = [child for watched in self._watched.values() for child in watched.children.values()]
        stop_all(children, GRACE_S)
        for child in children:
            _end_group(child.pid)
        if self._notifications is not None:
            self._notifications.close()


def _end_group(pid: int) -> None:
    """End what a program that has ended, such as a shell, has started and left behind: its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _stdin_has_ended() -> bool:
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable) and not os.read(sys.stdin.fileno(), 4096)
