"""Why an attempt at a cell failed, in one line, and whether another attempt would fail the same way."""

import contextlib
from collections.abc import Iterator

from harness.files.script_text import ScriptError, ScriptRefused
from harness.lab.error_remedies import error_text, explain
from harness.lab.instances import Lab, LabError, ProcedureFails
from harness.load.plan import LoadError

FINAL = (ProcedureFails, ScriptRefused)  # errors of parts that another attempt would have too
_POLL_S = 0.02


class CellFailed(Exception):
    """This attempt has no numbers; the message says why, in one line."""

    def __init__(self, reason: str, *, is_final: bool = False) -> None:
        super().__init__(reason)
        self.is_final = is_final  # another attempt would fail the same way


class NotReady(CellFailed):
    """The testbed is not ready: lab, dialogs or clients did not start."""


@contextlib.contextmanager
def named_failures(lab: Lab) -> Iterator[None]:
    """Turn the parts' exceptions into CellFailed."""
    try:
        yield
    except (LoadError, LabError, ScriptError) as error:
        raise CellFailed(_cause(lab, explain(str(error)))) from None
    except Exception as error:
        # A simulated cell has no pyodbc: its errors are recognised by their module.
        if type(error).__module__ != "pyodbc":
            raise
        raise CellFailed(_cause(lab, error_text(error))) from None


def not_ready(error: Exception, lab: Lab | None) -> NotReady:
    """The failure of a preparation, on this lab if it was open."""
    return NotReady(_cause(lab, str(error)) if lab else str(error), is_final=isinstance(error, FINAL))


def _cause(lab: Lab, symptom: str) -> str:
    """Return the symptom, or the death of an instance, which is the reason for whatever failed with it."""
    deadline = lab.clock.now_s() + 0.5  # a connection may break before its process has ended
    while True:
        try:
            lab.check()
        except LabError as death:
            return str(death)
        if "connect" not in symptom.lower() and "link" not in symptom.lower():
            return symptom
        if lab.clock.now_s() > deadline:
            # The harness has no process for a user's own server.
            unreachable = [reason for instance in lab.instances if (reason := instance.out_of_reach())]
            return f"{unreachable[0]} ({symptom})" if unreachable else symptom
        lab.clock.sleep(_POLL_S)
