"""A reporter that keeps the notes of a run."""

from __future__ import annotations

from harness.reporting import Reporter


class NotingReporter(Reporter):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)
