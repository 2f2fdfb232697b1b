"""The processors that this process may use."""

import psutil


def count() -> int:
    process = psutil.Process()
    # macOS binds no process to processors.
    return len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else psutil.cpu_count() or 1
