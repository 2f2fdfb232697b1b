"""The processors that this process may use."""

import psutil


def count() -> int:
    return len(psutil.Process().cpu_affinity())
