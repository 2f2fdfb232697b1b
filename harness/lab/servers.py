"""The sqlserver lab on servers that a user names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.lab.drivers import Driver
from harness.lab.instances import Lab
from harness.lab_file import LabFile


def start(
    lab_file: LabFile,
    *,
    initiators: int,
    directory: Path,
    driver: Driver,
    watch: Callable[[], None],
    tell: Callable[[str], None],
) -> Lab:
    raise NotImplementedError


def abandon(lab: Lab, tell: Callable[[str], None]) -> None:
    raise NotImplementedError
