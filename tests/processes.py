"""Other processes, any of which may end while a test examines it: then it has no command line and no children."""

import contextlib
import random
import socket
import subprocess
import threading
from typing import Any, Self

import psutil


class Child(subprocess.Popen[Any]):
    """A process that a `with` block ends: it is killed when the block is left, and after `LONGEST_S` in any case.

    So a test that waits for its end or for its output fails, and waits for neither for ever.
    """

    LONGEST_S = 400  # less than the timeout of a test

    def __enter__(self) -> Self:
        self._watch = threading.Timer(self.LONGEST_S, self.kill)
        self._watch.daemon = True
        self._watch.start()
        return super().__enter__()

    def __exit__(self, *about: Any) -> None:
        self._watch.cancel()
        self.kill()
        super().__exit__(*about)


def free_port() -> int:
    """A port of this machine on which nobody listens, and none that the system gives to connections: those of other
    tests could have it before it is used."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("a hundred ports are taken")


def children_of(pid: int) -> list[psutil.Process]:
    """Children and their children."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def command_line(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return dict(process.environ())
    except psutil.Error:
        return {}


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
