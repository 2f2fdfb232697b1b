"""Install Python packages with pip into the environment that runs this, and count what pip fetches and installs.

Called by `setup` and for `make test` with a file of pins, all of which pip may install, and the arguments of
`pip install`, when click and rich are there. What pip says goes to the file .venv/pip.log, and is printed if it fails.
"""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from harness.output import reporting  # noqa: E402

# What follows is a requirement (`rich>=13 (from ...)`), or where it is found (`/wheels/rich-13.0-py3-none-any.whl`).
FETCHED = re.compile(r"^(?:Collecting|Processing) (?:\S*/)?(\w[\w.]*(?:-[a-zA-Z][\w.]*)*)", re.MULTILINE)
LOOK_EVERY_S = 0.5
LINES = 5  # elsewhere than on a terminal
TAIL = 20  # lines of pip's that are printed if it fails


def main() -> int:
    pins = re.findall(r"^[\w.-]+==", (CHECKOUT / sys.argv[1]).read_text(), re.MULTILINE)
    installed_before = installed()
    log = Path(sys.prefix) / "pip.log"
    with log.open("w") as output, reporting.on_console(ask=False) as reporter:
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
        pip = subprocess.Popen([*command, "--progress-bar", "off", *sys.argv[2:]], stdout=output, stderr=subprocess.STDOUT)
        total, done = 2 * len(pins), []
        reporter.begin(total, 0, unit="step", every=total // LINES)
        running = True
        while running:
            running = is_running(pip)
            fetched = [f"fetching {name}" for name in FETCHED.findall(log.read_text())]
            for step in dict.fromkeys([*fetched, *(f"installing {name}" for name in installed() - installed_before)]):
                if step not in done:
                    done.append(step)
                    reporter.phase(step)
                    reporter.cell_done(len(done), step, "completed", "")
    if pip.returncode:
        print("\n".join(log.read_text().splitlines()[-TAIL:]), file=sys.stderr)
    return pip.returncode


def installed() -> set[str]:
    """Return the packages that the environment has."""
    return {path.name.partition("-")[0] for path in Path(sysconfig.get_path("purelib")).glob("[!~]*.dist-info")}


def is_running(process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of a process, or for the time of the next look."""
    try:
        process.wait(LOOK_EVERY_S)
    except subprocess.TimeoutExpired:
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
