"""How a command ends: exit codes, and errors in one line with their remedy."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

import click

from harness.failures import MachineFailure, UsageFailure

PATH = click.Path(path_type=Path)

OK, CELLS_FAILED, USAGE, PREFLIGHT, CANNOT_TELL, INTERRUPTED = 0, 1, 2, 3, 4, 130

EXIT_CODES = """\b
Exit codes:
  0    success
  1    cells, runs or fault seeds failed: messages lost, calls refused ...;
       compare --fail-over found a slowdown
  2    a wrong option, name, setting or file; nothing has started
  3    this machine or a server lacks something: an ODBC driver, Java,
       a permission, a free port, disk space, a writable folder;
       a data folder that is damaged
  4    compare --fail-over cannot tell whether there is a slowdown
  130  interrupted (Ctrl-C); what was measured is kept
"""


class Failure(click.ClickException):
    """Ends the program with one line and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(" ".join(message.split()))
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it for the class


_REMEDIES = {
    errno.ENOSPC: "the disk is full: free some space, then continue the run with --resume",
    errno.EDQUOT: "the disk quota is used up: free some space, then continue the run with --resume",
    errno.EROFS: "the file system is read-only: choose another folder with --results",
    errno.EACCES: "no permission: choose another folder with --results, or change its permissions",
    errno.ENOTDIR: "a part of the path is not a folder: choose another with --results",
    errno.EISDIR: "it is a folder: name a file",
    errno.ENAMETOOLONG: "the name is too long: choose a shorter one",
    errno.EADDRINUSE: "the port is in use: choose another",
}


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn exceptions that a user causes, or can mend, into one line and an exit code."""
    try:
        yield
    except UsageFailure as error:
        raise Failure(str(error), USAGE) from None
    except MachineFailure as error:
        raise Failure(str(error), PREFLIGHT) from None
    except FileNotFoundError as error:
        raise Failure(f"{error.filename or error}: no such file", USAGE) from None
    except BrokenPipeError:  # nobody reads the output any more: `main` ends quietly
        raise
    except OSError as error:
        reason = _REMEDIES.get(error.errno or 0) or error.strerror or str(error)
        raise Failure(f"{error.filename}: {reason}" if error.filename else reason, PREFLIGHT) from None
