"""Which system this is: the harness starts processes on Linux alone, where they end with their parents."""

import platform

from harness.failures import MachineFailure


def is_linux() -> bool:
    return platform.system() == "Linux"


def require_linux(**_: object) -> None:
    """Raise MachineFailure elsewhere. It can stand in for a command, whose options it takes."""
    if not is_linux():
        raise MachineFailure(
            "this needs Linux: on Windows a shell of WSL2 (wsl --install), on a Mac Docker (README, Two commands); "
            "what runs here: doctor and monitors of your own servers, plan, report, figures, claims and compare"
        )
