"""What Spark forks its Python workers from: a process that has imported, once, what every slice needs.

Spark's own imports nothing before it forks, for fear of threads that a fork leaves behind. None of these modules counts
on one: a cell is itself a fork of its worker.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from harness.simulation import simulated_run, warmed_world  # noqa: F401

if __name__ == "__main__":
    manager()
