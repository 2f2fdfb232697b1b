"""The end of a process with that of its parent."""

from __future__ import annotations

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_prctl = ctypes.CDLL(None, use_errno=True).prctl


def die_with_parent() -> None:
    """Ask the kernel to end this process when the thread that started it ends."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
