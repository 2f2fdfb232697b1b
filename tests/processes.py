"""Other processes, any of which may end while a test examines it: then it has no command line and no children."""

from __future__ import annotations

import psutil


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
