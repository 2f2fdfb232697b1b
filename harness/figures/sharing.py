"""Two processes share the figures of a run: the caller's, and a child (`second_process`) that ends with it.

Python uses one processor at a time, and to draw is nearly all Python, so threads would gain nothing; and a fork beside
the threads of Spark and Arrow is unsafe. So the child is an interpreter of its own. It takes two seconds of processor
time to start and import what it needs, while the figures of a run take ten.

The child begins with the last figure, its parent with the first. Each claims a figure before it draws it, by an empty
file of that name. So both are done at about the same time, whatever a figure takes.
"""

import json
import sys
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from harness.lab.processes import Child
from harness.machine import processors
from harness.machine.linux import is_linux

LIMIT_S = 600.0  # for seconds of work, on a machine that may be busy


class Drawn(NamedTuple):
    """The files of a figure; without any, the reason why it was left out."""

    files: list[str]
    reason: str


class Shared(NamedTuple):
    """The work that two processes share."""

    folder: Path  # of the claims, and of what became of the child's figures
    wait: Callable[[], None]  # until the child has drawn its last figure


def is_worth_it() -> bool:
    """Return whether there is a second processor, without which a second process only costs. `Child` needs Linux."""
    return is_linux() and processors.count() > 1


@contextmanager
def shared(results: Path) -> Iterator[Shared]:
    """Draw figures of a run in a child too while the block runs. `wait` raises ChildError if the child failed."""
    with tempfile.TemporaryDirectory(prefix="harness-figures-") as name:
        folder = Path(name)
        if not is_worth_it():
            yield Shared(folder, lambda: None)
            return
        command = [sys.executable, "-m", "harness.figures.second_process", str(results), name]
        child_name = "the second process that draws figures"
        with Child(child_name, command, log=folder / "child.log", pipe_stdout=True) as child:
            yield Shared(folder, lambda: _wait(child))


def _wait(child: Child) -> None:
    child.read_line(LIMIT_S)


def claimed(folder: Path, names: Iterable[str]) -> Iterator[str]:
    """Claim one figure after another; those that the other process has claimed are left out."""
    for name in names:
        try:
            (folder / f"{name}.claim").touch(exist_ok=False)
        except FileExistsError:
            continue
        yield name


def tell(folder: Path, name: str, drawn: Drawn) -> None:
    """Tell the other process what became of a figure."""
    unfinished = folder / f"{name}.unfinished"
    unfinished.write_text(json.dumps(drawn), encoding="utf-8")
    unfinished.rename(folder / f"{name}.drawn")


def told(folder: Path, known: Container[str]) -> dict[str, Drawn]:
    """Return what the other process has told of figures that are not known yet."""
    told_of = sorted(path for path in folder.glob("*.drawn") if path.stem not in known)
    return {path.stem: Drawn(*json.loads(path.read_text(encoding="utf-8"))) for path in told_of}
