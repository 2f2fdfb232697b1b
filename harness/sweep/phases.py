"""How long each phase of a cell took; into the journal, so that overhead is known and not guessed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class Phases:
    """Names and durations in the order in which phases first began; a phase entered twice adds up."""

    def __init__(self, on_phase: Callable[[str], None] = lambda name: None) -> None:
        self.seconds: dict[str, float] = {}
        self.current = ""
        self._on_phase = on_phase

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = time.perf_counter()
        self.current = name
        self._on_phase(name)
        try:
            yield
        finally:
            self.seconds[name] = round(self.seconds.get(name, 0.0) + time.perf_counter() - began, 4)
