"""lab.toml: the servers of a user's own lab."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class LabFile:
    path: Path
    version: str
    prefix: str
    target: Any
    initiators: tuple[Any, ...]


def read(path: Path) -> LabFile:
    raise NotImplementedError
