"""Failures that a user causes or can mend: one line that says what is wrong and what to do, and an exit code.

Every part derives its own from the first two; the command line knows no others.
"""

import difflib
from collections.abc import Sequence


class UsageFailure(Exception):
    """A wrong option, name, setting or file: exit code 2, nothing was started."""


class MachineFailure(Exception):
    """Something that this machine or a server lacks or refuses: exit code 3."""


class StatementRefused(MachineFailure):
    """A server refuses a statement of a script, for lack of a right or because the statement is wrong."""


class Declined(Exception):
    """A question before a run was answered with no: nothing was started."""


def nearest(word: str, valid: Sequence[str]) -> str:
    """`; nearest: a, b` or, where nothing is near, `; valid: a, b, c`."""
    close = difflib.get_close_matches(word.lower(), valid, n=3, cutoff=0.5)
    return f"; nearest: {', '.join(close)}" if close else f"; valid: {', '.join(valid)}"
