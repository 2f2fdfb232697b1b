"""Processes that take as much of the processors as a hog's own, and have nothing to do with the server."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator

FORK_NICENESS = 19  # of the server's forks: `long_reads.NICENESS`


@contextlib.contextmanager
def child(module: str, *arguments: object, start_new_session: bool) -> Iterator[subprocess.Popen[bytes]]:
    """A benchmark's module, run as a process of its own that says when it is ready, until the block is left."""
    command = [sys.executable, "-m", f"tests.benchmarks.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=start_new_session)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextlib.contextmanager
def burner(client: float, fork: float) -> Iterator[None]:
    """Take these shares of a processor, as a hog's client and the fork that reads for it do.

    Linux may share processors between sessions first: the client has one of its own, the fork is in the server's.
    """
    with (
        child("burner", client, 0, start_new_session=True),
        child("burner", fork, FORK_NICENESS, start_new_session=False),
    ):
        yield


def burn(share: float, niceness: int) -> None:
    os.nice(niceness)
    print("ready", flush=True)
    used_s, began = time.process_time(), time.perf_counter()
    while True:
        if time.process_time() - used_s >= share * (time.perf_counter() - began):
            time.sleep(0.005)


if __name__ == "__main__":
    burn(float(sys.argv[1]), int(sys.argv[2]))
