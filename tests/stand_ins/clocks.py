"""The clocks of a process that a test starts: it sets the wall clock, and suspends the machine for as long as it likes."""

import shutil
import struct
import subprocess
from pathlib import Path

SECOND_NS = 1_000_000_000
IS_AVAILABLE = shutil.which("gcc") is not None


class Clocks:
    """What is added to the clocks of each process with this `environment`; it sees a change at once."""

    def __init__(self, folder: Path, name: str = "clocks") -> None:
        self._file = folder / f"{name}.clocks"
        self._wall_ns = self._suspended_ns = 0
        self._write()
        library = folder / f"{name}.so"
        source = Path(__file__).with_suffix(".c")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        self.environment = {"LD_PRELOAD": str(library), "CLOCKS": str(self._file)}

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward, or back."""
        self._wall_ns += round(seconds * SECOND_NS)
        self._write()

    def suspend(self, seconds: float) -> None:
        """Let it be as if the machine had been suspended for so long."""
        self._suspended_ns += round(seconds * SECOND_NS)
        self._write()

    def _write(self) -> None:
        with self._file.open("r+b" if self._file.exists() else "w+b") as file:  # in place: it is mapped
            file.write(struct.pack("=qq", self._wall_ns, self._suspended_ns))
