"""Linked real processes for ten minutes, while instances, clients, clocks and links fail: `tests.linked`.

It prints the seed and the command that repeats it, what failed how often, and what broke; then the exit code is 1.
"""

import subprocess
import sys

DURATION = "10m"


def main(duration: str = DURATION) -> None:
    done = subprocess.run([sys.executable, "-m", "tests.linked.scenario", "--for", duration], check=False)
    if done.returncode:
        raise SystemExit(1)
