"""The child that draws figures of a run beside its parent, from the last to the first (`sharing` says why).

    python -m harness.figures.second_process RUN FOLDER

FOLDER is that of the claims. When no figure is left to claim, it prints a line.
"""

import sys
from pathlib import Path

from harness.figures.build import drawings, write_claimed
from harness.figures.reduced_run import read
from harness.figures.sharing import tell


def main(results: Path, folder: Path) -> None:
    run = read(results)
    figures = drawings(run)
    for name, drawn in write_claimed(run, figures, folder, reversed(figures)):
        tell(folder, name, drawn)
    print("done", flush=True)  # noqa: T201  to a pipe


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
