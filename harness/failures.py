"""Failures that a user causes or can cure: one line that names the thing and the cure, and an exit code.

Every part derives its own from these two; the command line knows no others.
"""

from __future__ import annotations


class UsageFailure(Exception):
    """A wrong option, name, setting or file: exit code 2, nothing was started."""


class MachineFailure(Exception):
    """This machine, or a server, does not let the run go on: exit code 3."""
