"""From nothing to a lab: instances started, scripts installed, instances linked; and back to nothing."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from harness.lab import drivers, embedded, link
from harness.lab.instances import Lab, LabError
from harness.settings import LABS, nearest


@contextlib.contextmanager
def open(
    name: str = "embedded",
    *,
    version: str = "2008",
    initiators: int = 1,
    directory: Path | None = None,
    driver: Literal["auto", "microsoft", "freetds"] = "auto",
    watch: Callable[[], None] = lambda: None,
) -> Iterator[Lab]:
    """A lab of one target and `initiators` initiators, linked and without dialogs; closed at the end of the block.

    Logs and, while it is open, data of its instances lie in `directory`; without one, in a temporary directory. `watch`
    may raise to end whatever waits for the lab (see `interruption`). Call it from the main thread. Raises LabError,
    drivers.NoDriver or scripts.ScriptError, each of one line.
    """
    if name not in LABS:
        raise LabError(f"{name!r} is no lab{nearest(name, LABS)}")
    if version not in embedded.VERSIONS:
        raise LabError(f"the embedded lab has no version {version!r}{nearest(version, embedded.VERSIONS)}")
    drivers.check_manager()
    with contextlib.ExitStack() as stack:
        if directory is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="harness-lab-")))
        lab = embedded.start(version=version, initiators=initiators, directory=directory, driver=drivers.choose(driver))
        stack.callback(embedded.remove_data, directory)
        stack.callback(lab.close)
        lab.watch = watch
        link.link(lab)
        yield lab
