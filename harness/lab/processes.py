"""Child processes that die with their parent and report how they died.

Three things end a child. The kernel kills it when the *thread that started it* ends (PR_SET_PDEATHSIG refers to
threads), so start children from the main thread only. End of file on its stdin, a pipe, means that the parent is gone.
And `stop` closes its stdin, then sends SIGTERM, then SIGKILL, and waits in between.

A child has a session of its own, so that Ctrl-C reaches the parent alone, which then stops its children in order.
Where the kernel groups processes by session (autogroup in sched(7)), a nice value counts within the group only, and the
group has one of its own.
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
from harness.files.settings import child_environment
from harness.machine.linux import is_linux, require_linux

_PR_SET_PDEATHSIG = 1
# Loaded here, as nothing should be after a fork.
_LIBC = ctypes.CDLL(None, use_errno=True) if is_linux() else None
_TAIL_BYTES = 4096
# An ordinary user may change the nice value of a scheduling group ten times a second; the kernel refuses more often.
_AUTOGROUP_PAUSE_S, _AUTOGROUP_ATTEMPTS = 0.05, 10


class ChildError(MachineFailure):
    """A child died or did not become ready. The message names it, how it ended and the last line of its log."""


def die_with_parent(parent_pid: int) -> None:
    """Ask the kernel to kill this process when the thread that started it ends. May run between fork and exec."""
    assert _LIBC is not None
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)  # the parent died before the call above


class Process(Protocol):
    """Whatever runs an instance for a lab."""

    def death(self) -> str | None:
        """Return how it ended, in one line; None while it runs or after `stop`."""
        ...

    def request_stop(self) -> None: ...

    def stop(self, grace_s: float = 5.0) -> None: ...


class Child:
    """A running child process. `log` receives its stderr, and its stdout unless `pipe_stdout`.

    Where processor time is short, a child of a higher `niceness` leaves more of it to the others.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str] | None = None,
        pipe_stdout: bool = False,
        niceness: int = 0,
    ) -> None:
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        require_linux()
        parent_pid = os.getpid()
        with log.open("ab") as output:
            self._log_begin = output.tell()
            self._process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if pipe_stdout else output,
                stderr=output,
                env=child_environment(environment or {}),
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(parent_pid),  # noqa: PLW1509  prctl and getppid: safe after fork
            )
        self.pid = self._process.pid
        if niceness:
            _set_niceness(self.pid, niceness)
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

    @property
    def exit_code(self) -> int | None:
        """The exit code, or minus the signal that ended it; None while it runs."""
        return self._process.poll()

    def read_line(self, timeout_s: float) -> str:
        """Return the next line of its stdout. Raises ChildError if it dies first or the time is up."""
        deadline = time.monotonic() + timeout_s
        descriptor = self.stdout.fileno()
        while b"\n" not in self._unread:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise ChildError(f"{self.name} was not ready after {timeout_s:g} s{self._end_of_log()}")
            piece = os.read(descriptor, 65536)
            if not piece:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(timeout=max(0.1, deadline - time.monotonic()))
                raise ChildError(self.death() or f"{self.name} closed its output{self._end_of_log()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode("utf-8", "replace")

    def death(self) -> str | None:
        """Return how the process ended, in one line; None while it runs or after `stop`."""
        code = self._process.poll()
        if code is None or self._stopping:
            return None
        if code < 0:
            how = f"was killed by signal {-code} ({signal.Signals(-code).name})"
        else:
            how = f"ended with exit code {code}"
        return f"{self.name} (process {self.pid}) {how}{self._end_of_log()}"

    def request_stop(self) -> None:
        """Close stdin and send SIGTERM. `stop` waits for the end."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self.stdin.close()
        if self.is_alive():
            self._process.terminate()

    def stop(self, grace_s: float = 5.0) -> None:
        """End the process, after `grace_s` with SIGKILL, and wait for it."""
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

    def _end_of_log(self) -> str:
        line = last_line(self.log, self._log_begin)
        return f"; last line of {self.log.name}: {line}" if line else ""


def _set_niceness(pid: int, niceness: int) -> None:
    """Set the nice value of a process that has just begun, so of all its threads, and that of its scheduling group."""
    with contextlib.suppress(ProcessLookupError):
        os.setpriority(os.PRIO_PROCESS, pid, niceness)
    for _ in range(_AUTOGROUP_ATTEMPTS):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(niceness))
        except BlockingIOError:
            time.sleep(_AUTOGROUP_PAUSE_S)
        except OSError:
            return  # the kernel does not group processes by session, or the process has ended
        else:
            return


def last_line(log: Path, begin: int = 0) -> str:
    """Return the last line of a log, from a place in it on, that is not empty, cut to 300 characters."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(begin, file.tell() - _TAIL_BYTES))
            lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    except OSError:
        return ""
    return lines[-1][:300] if lines else ""


def stop_all(children: Sequence[Process], grace_s: float = 5.0) -> None:
    """Ask all to end, then wait for them. This takes as long as the slowest alone."""
    for child in children:
        child.request_stop()
    deadline = time.monotonic() + grace_s
    for child in children:
        child.stop(max(0.1, deadline - time.monotonic()))
