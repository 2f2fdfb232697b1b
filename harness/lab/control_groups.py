"""The processor time of a container, as the kernel counts it: a second opinion on what SQL Server says of itself.

For each process /proc has its control groups, a line `<hierarchy>:<controllers>:<path>` each. Version 2 has one line,
`0::<path>`, and the file `cpu.stat` of the group has `usage_usec`. Version 1 has a line for `cpuacct`, and the
group's file `cpuacct.usage` has nanoseconds. All users may read them. Sources: cgroups(7),
https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files,
https://docs.kernel.org/admin-guide/cgroup-v1/cpuacct.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PROCESSES, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_CONTROLLER = "cpuacct"


@dataclass(frozen=True)
class ControlGroup:
    """The control group of a container on this machine's kernel."""

    usage: Path  # the file with its processor time

    @classmethod
    def of(cls, process: int, container: str) -> ControlGroup | None:
        """Return the group of a container, by its id and its first process; None if this machine does not show it.

        A process of the same number is another one where the harness runs in a container itself. Docker names the group
        after the container.
        """
        try:
            lines = (PROCESSES / str(process) / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}
        version_1 = next((names for names in paths if _CONTROLLER in names.split(",")), None)
        if version_1 is None:
            folder, file = paths.get("", ""), "cpu.stat"
        else:
            folder, file = f"/{version_1}{paths[version_1]}", "cpuacct.usage"
        group = cls(GROUPS / folder.lstrip("/") / file)
        return group if container in folder and group.processor_time_ms() is not None else None

    def processor_time_ms(self) -> int | None:
        """Return its processor time since it began, user and kernel; None if it has ended."""
        try:
            text = self.usage.read_text(encoding="ascii")
            if self.usage.name == "cpuacct.usage":
                return int(text) // 1_000_000
            return int(dict(line.split() for line in text.splitlines())["usage_usec"]) // 1000
        except (OSError, ValueError, KeyError):
            return None
