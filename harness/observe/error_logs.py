"""Keep what the instances' error logs say of the time in which their lab was open."""

from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from harness.failures import MachineFailure
from harness.lab import scripts
from harness.lab.instances import Instance, in_parallel
from harness.output.safe_text import visible

FOLDER = "error-logs"  # of a run
QUERY_TIMEOUT_S = 30


class ErrorLogs:
    """Make it when a lab is open, and call `keep` before it closes."""

    def __init__(self, instances: Sequence[Instance], version: str, results: Path, tell: Callable[[str], None]) -> None:
        self._instances = instances
        self._version = version
        self._folder = results / FOLDER
        self._tell = tell
        self._since: list[datetime] = in_parallel(_local_time, instances)

    def keep(self) -> None:
        """Add the entries to `<version>-<instance>.log`, a line each. Tell which instance does not show its log."""
        kept = in_parallel(self._entries, self._instances, self._since)
        for instance, entries in zip(self._instances, kept, strict=True):
            if not entries:
                continue
            try:
                self._folder.mkdir(exist_ok=True)
                with (self._folder / f"{self._version}-{instance.name}.log").open("a", encoding="utf-8") as file:
                    file.writelines(f"{entry}\n" for entry in entries)
            except OSError as error:
                self._tell(f"the error log of {instance.name} is not kept: {error.strerror}")

    def _entries(self, instance: Instance, since_time: datetime) -> list[str]:
        try:
            rows = _rows(instance, "error_log")
        except MachineFailure as error:
            self._tell(f"the error log of {instance.name} is not kept: {error}")
            return []
        return [_line(row) for row in rows if row["LogDate"] >= since_time]


def _local_time(instance: Instance) -> datetime:
    [row] = _rows(instance, "local_time")
    moment: datetime = row["local_time"]
    return moment


def _rows(instance: Instance, file: str) -> list[dict[str, Any]]:
    with closing(instance.connect(query_timeout_s=QUERY_TIMEOUT_S)) as connection:
        return scripts.rows(connection, f"observe/{file}.sql", {})


def _line(row: dict[str, Any]) -> str:
    moment = row["LogDate"].isoformat(sep=" ", timespec="milliseconds")
    return visible(f"{moment} {row['ProcessInfo'] or '':<10} {' '.join(str(row['Text']).split())}")
