"""The scenario that the web interface's start form describes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from harness.matrix import DIALOG_RATIOS, INITIATORS, PAYLOADS_BYTES, THREADS

THREADS_MAX = max(THREADS)
CHOICES: Mapping[str, tuple[str, Sequence[int]]] = {
    "initiators": ("instances that send", INITIATORS),
    "dialog_ratio": ("150: only every 150th dialog is used", DIALOG_RATIOS),
    "payload_bytes": ("size of a message", PAYLOADS_BYTES),
}


class BadScenario(ValueError):
    """A field with a wrong value; the message names the valid ones."""


@dataclass(frozen=True, slots=True)
class WebScenario:
    """The axes of a cell without the version, with the form's defaults."""

    initiators: int = 1
    threads: int = 10
    dialog_ratio: int = 150
    payload_bytes: int = 100

    @classmethod
    def from_form(cls, form: Mapping[str, str]) -> WebScenario:
        """The scenario of a submitted form; raises BadScenario for the first wrong field."""
        values = {}
        for name, default in cls().fields().items():
            text = form.get(name, str(default)).strip()
            allowed = range(1, THREADS_MAX + 1) if name == "threads" else CHOICES[name][1]
            if not text.isdecimal() or int(text) not in allowed:
                valid = f"1 to {THREADS_MAX}" if name == "threads" else ", ".join(map(str, allowed))
                raise BadScenario(f"{name.replace('_', ' ')}: {text!r} is not valid (valid: {valid})")
            values[name] = int(text)
        return cls(**values)

    def fields(self) -> dict[str, int]:
        return asdict(self)

    def __str__(self) -> str:
        initiators = f"{self.initiators} initiator{'s' if self.initiators > 1 else ''}"
        dialogs = "every dialog" if self.dialog_ratio == 1 else f"every {self.dialog_ratio}th dialog"
        return f"{initiators} × {self.threads} threads, {dialogs}, {self.payload_bytes} bytes"
