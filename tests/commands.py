"""Commands of the harness in the process of the tests, which imports it once; commands that end by a signal are processes."""

import os
import signal
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest

from harness import cli
from tests.processes import children_of, is_alive


@dataclass
class CommandResult:
    """The output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line on stderr."""
        assert "Traceback" not in self.out + self.err, self.out + self.err
        lines = self.err.splitlines()
        assert len(lines) == 1 and lines[0].startswith("harness: "), (self.code, self.out, self.err)
        return lines[0].removeprefix("harness: ")


def harness(folder: Path, *arguments: str, **environment: str) -> CommandResult:
    """Run a command to its end in a folder, on a wide terminal. Assert that no process of it is left."""
    before = set(children_of(os.getpid()))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.MonkeyPatch.context() as patch, StringIO() as out, StringIO() as err:
            patch.chdir(folder)
            for name, value in {"COLUMNS": "200", **environment}.items():
                patch.setenv(name, value)
            with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
                cli.main(arguments)
            result = CommandResult(int(ended.value.code or 0), out.getvalue(), err.getvalue())
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    assert not [child for child in children_of(os.getpid()) if child not in before and is_alive(child)]
    return result
