"""The sqlserver lab in containers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from harness.lab.drivers import Driver
from harness.lab.instances import Lab

VERSIONS = ("2017", "2019", "2022", "2025")
SWEEP_VERSIONS = ("2022", "2025")


@contextlib.contextmanager
def running(
    *,
    version: str,
    initiators: int,
    directory: Path,
    driver: Driver,
    watch: Callable[[], None],
    tell: Callable[[str], None],
) -> Iterator[Lab]:
    raise NotImplementedError
    yield
