"""Child processes that die with their parent and say how they died.

Three things hold a child to its parent. The kernel kills it when the parent's *thread that started it* ends
(PR_SET_PDEATHSIG is about threads), so children are started from the main thread and from nowhere else. Its stdin is a
pipe that nobody writes to unless asked: end of file there means that the parent is gone. And `stop` ends it in order:
closed stdin, SIGTERM, SIGKILL, each given its time.

A child has a session of its own, so that Ctrl-C reaches the parent alone, which then stops its children in its order.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Protocol

from harness.failures import MachineFailure
from harness.settings import child_environment

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_TAIL_BYTES = 4096


class ChildError(MachineFailure):
    """A child died or did not become ready; the message names it, its end and its last words."""


def die_with_parent(parent_pid: int) -> None:
    """Asks the kernel to kill this process when the thread that started it ends. Runs between fork and exec too."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)  # the parent died before the line above


class Process(Protocol):
    """What a lab must know of whatever runs an instance for it."""

    def death(self) -> str | None:
        """How it ended, in one line; None while it runs or after `stop`."""
        ...

    def request_stop(self) -> None: ...

    def stop(self, grace_s: float = 5.0) -> None: ...


class Child:
    """A running child process. `log` receives its stderr, and its stdout unless `pipe_stdout`."""

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        pipe_stdout: bool = False,
        working_directory: Path | None = None,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        parent_pid = os.getpid()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if pipe_stdout else output,
                stderr=output,
                env=child_environment(environment or {}),
                cwd=working_directory,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent_pid),  # noqa: PLW1509  prctl and getppid: safe after fork
            )
        self.pid = self._process.pid
        self._stopping = False
        self._unread = b""

    @property
    def stdin(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self._process.stdout is not None, f"{self.name} was started without pipe_stdout"
        return self._process.stdout

    def is_alive(self) -> bool:
        return self._process.poll() is None

    def read_line(self, timeout_s: float) -> str:
        """The next line of its stdout; ChildError if it dies first or the time runs out."""
        deadline = time.monotonic() + timeout_s
        descriptor = self.stdout.fileno()
        while b"\n" not in self._unread:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ChildError(f"{self.name} was not ready after {timeout_s:g} s{self._last_words()}")
            piece = os.read(descriptor, 65536)
            if not piece:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=max(0.1, deadline - time.monotonic()))
                raise ChildError(self.death() or f"{self.name} closed its output{self._last_words()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")

    def death(self) -> str | None:
        """How the process ended, in one line; None while it runs or after `stop`."""
        code = self._process.poll()
        if code is None or self._stopping:
            return None
        if code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        else:
            how = f"ended with exit code {code}"
        return f"{self.name} (process {self.pid}) {how}{self._last_words()}"

    def request_stop(self) -> None:
        """Closed stdin and SIGTERM: the child begins to end. `stop` waits for it."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self.stdin.close()
        if self.is_alive():
            self._process.terminate()

    def stop(self, grace_s: float = 5.0) -> None:
        """Ends the process, at the latest after `grace_s` by SIGKILL, and waits for it."""
        self.request_stop()
        try:
            self._process.wait(timeout=grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def kill(self) -> None:
        self._stopping = True
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        line = last_line(self.log)
        return f"; last line of {self.log.name}: {line}" if line else ""


def last_line(log: Path) -> str:
    """The last line of a log that is not empty, cut to 300 characters."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""


def stop_all(children: Sequence[Process], grace_s: float = 5.0) -> None:
    """Asks all to end, then waits for each: as long as the slowest, not as long as all together."""
    for child in children:
        child.request_stop()
    deadline = time.monotonic() + grace_s
    for child in children:
        child.stop(max(0.1, deadline - time.monotonic()))
