"""The process from which Spark forks its Python workers: it imports once what every slice needs.

Spark's own daemon imports nothing before it forks, since threads do not survive a fork. None of these modules depends
on a thread that an import starts.
"""

from __future__ import annotations

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

from harness.simulation import simulated_run, warmed_world  # noqa: F401

if __name__ == "__main__":
    manager()
