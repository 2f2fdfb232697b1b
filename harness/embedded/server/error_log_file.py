"""The file ERRORLOG in the data folder: what sp_readerrorlog shows, for as long as the files are kept.

"Every time SQL Server is started, the current error log is renamed to errorlog.1; errorlog.1 becomes errorlog.2", and
so on. Here a file that has grown long is renamed too, so that a procedure that prints in a loop does not fill the disk.
"""

import contextlib
from datetime import UTC, datetime
from pathlib import Path

from harness.embedded.broker.environment import ErrorLogEntry
from harness.embedded.runtime.tasks import SECOND

SIZE_MAX = 1024 * 1024  # bytes of a file
KEPT = 6  # earlier files, as in SQL Server


class ErrorLogFile:
    """Appends the entries of one instance."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "ERRORLOG"
        self._cycle()

    def append(self, entry: ErrorLogEntry) -> None:
        if self._file.tell() > SIZE_MAX:
            self._file.close()
            self._cycle()
        moment = datetime.fromtimestamp(entry.utc_ns / SECOND, UTC)
        line = f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 10_000:02} {entry.process_info:<11} {entry.text}\n"
        with contextlib.suppress(OSError):  # a full disk: the instance goes on without the line
            self._file.write(line.encode("utf-8", "backslashreplace"))

    def _cycle(self) -> None:
        """Rename ERRORLOG to ERRORLOG.1, and so on; the oldest is lost."""
        for number in range(KEPT - 1, 0, -1):
            if (old := self._numbered(number)).exists():
                old.replace(self._numbered(number + 1))
        if self._path.exists():
            self._path.replace(self._numbered(1))
        self._file = self._path.open("ab", buffering=0)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"ERRORLOG.{number}")
