"""The options of an instance: what sys.configurations shows of those that mean something here."""

from __future__ import annotations

from typing import NamedTuple

# value, value in use
Configured = tuple[int, int]


class Option(NamedTuple):
    configuration_id: int
    name: str
    value: int  # of a new instance
    minimum: int
    maximum: int
    description: str
    is_advanced: bool = False

    @property
    def default(self) -> Configured:
        return self.value, self.value


OPTIONS = {
    option.name: option
    for option in (
        Option(518, "show advanced options", 0, 0, 1, "show advanced options"),
        Option(
            1576,
            "remote admin connections",
            0,
            0,
            1,
            "Dedicated Admin Connections are allowed from remote clients",
        ),
    )
}
