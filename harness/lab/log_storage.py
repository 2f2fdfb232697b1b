"""How SQL Server in a container flushes its log: two settings of mssql.conf, and the filesystem under the log.

Both settings are 1 where the file does not set them, since SQL Server 2017 CU6: a log file is opened with O_DSYNC
(`writethrough`), and writes are followed by fdatasync instead (`alternatewritethrough`):
https://support.microsoft.com/topic/kb4131496-5a5b3ed2-0731-2659-be13-c902652fc556

The file may hold secrets, so only numbers of these two settings leave the container.
"""

import functools
from dataclasses import dataclass

from harness.lab import compose
from harness.lab.compose import ComposeError

# Prints the folder of the log, the mounts of the container (proc_mounts(5)), then lines such as writethrough=1. The
# environment names that folder: https://learn.microsoft.com/sql/linux/sql-server-linux-configure-environment-variables
_SCRIPT = r"""
set -e
echo "${MSSQL_LOG_DIR:-/var/opt/mssql/data}"
cat /proc/mounts
file=/var/opt/mssql/mssql.conf
if [ -e "$file" ]; then
    sed -nE '/^\s*\[control\]/,/^\s*\[/s/^\s*((alternate)?writethrough)\s*=\s*([0-9]+)\s*$/\1=\3/p' "$file"
fi
"""


@dataclass(frozen=True)
class Flushing:
    """What a container says of its log."""

    writethrough: int | None  # None: mssql.conf does not set it
    alternatewritethrough: int | None
    filesystem: str  # such as xfs
    mount_options: str  # such as rw,noatime


@dataclass
class LogStorage:
    """Where a container of SQL Server on this machine keeps its log."""

    container: str
    kernel_version: tuple[int, int]  # (0, 0): not known

    @functools.cached_property
    def flushing(self) -> Flushing | None:
        """Ask the container once; None if it does not answer, or not as expected."""
        try:
            return _parsed(compose.run_in(self.container, _SCRIPT))
        except (ComposeError, ValueError):
            return None


def _parsed(answer: str) -> Flushing:
    """Read what the script prints; raises ValueError if no mount has the log's folder."""
    folder, *lines = answer.splitlines()
    settings = {name: int(value) for name, value in (line.split("=") for line in lines if " " not in line)}
    mounts = [line.split() for line in lines if " " in line]
    candidates = [mount for mount in mounts if f"{folder}/".startswith(f"{mount[1].rstrip('/')}/")]
    # Of two mounts at the same place the later one hides the other.
    _, _, filesystem, options, *_ = max(reversed(candidates), key=lambda mount: len(mount[1]))
    return Flushing(settings.get("writethrough"), settings.get("alternatewritethrough"), filesystem, options)
