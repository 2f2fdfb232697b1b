"""What the lab in virtual time costs: all cells of the matrix, and a thousand seeds of faults.

    python -m tests.benchmarks.simulation [--cells PATTERN]

The budgets on two cores: 5 minutes and 2 GiB resident for the 528 cells, 3 minutes for the seeds.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from harness.simulation import run
from tests.benchmarks.reduction import measure

SEEDS = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", action="append", help="shell pattern on cell ids")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="harness-benchmark-") as folder:
        settings = {"results": folder, "cells": tuple(options.cells or ())}
        measure(
            "cells in virtual time",
            lambda: run.simulate(settings, resume=None, announce=print, console_is_terminal=False),
        )
        [journal] = Path(folder).glob("*/journal.jsonl")
        lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    messages = 1.5 * sum(line["sent_per_s"] for line in lines)
    cells_s = sum(line["phases_s"]["cell"] for line in lines)
    worlds_s = sum(line["phases_s"].get("dialogs", 0.0) for line in lines)
    print(f"  {len(lines)} cells, {messages:,.0f} messages: {cells_s / messages * 1e6:,.0f} us each, all in")
    print(f"  worlds built and warmed: {worlds_s:.1f} s of one core's time")
    command = [sys.executable, "-m", "harness", "simulate", "--faults", "--seeds", str(SEEDS)]
    measure(f"{SEEDS:,} seeds of faults", lambda: subprocess.run(command, check=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
