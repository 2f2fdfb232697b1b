"""The configuration options of an instance: those of sys.configurations that have a meaning here.

sp_configure records a value, RECONFIGURE makes it effective, and so does a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from harness.embedded.broker.transactions import Transaction

CATALOG = "tsql.configuration"  # in the store: name -> (value,)


class Option(NamedTuple):
    configuration_id: int
    name: str
    default: int
    minimum: int
    maximum: int
    description: str


class Setting(NamedTuple):
    """An option with its value."""

    option: Option
    value: int
    value_in_use: int


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


class Configuration:
    """The options that were changed, each with its value and the value in use."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[int, int]] = {}

    def recover(self, name: str, value: int) -> None:
        self._values[name] = (value, value)

    def setting(self, option: Option) -> Setting:
        value, value_in_use = self._values.get(option.name, (option.default, option.default))
        return Setting(option, value, value_in_use)

    def settings(self) -> Iterator[Setting]:
        return (self.setting(option) for option in OPTIONS.values())

    def change(self, tx: Transaction, option: Option, value: int) -> None:
        """sp_configure: the value takes effect at the next RECONFIGURE."""
        before = self.setting(option)
        self._values[option.name] = (value, before.value_in_use)
        tx.write(CATALOG, option.name, (value,))
        tx.on_rollback(lambda: self._values.update({option.name: (before.value, before.value_in_use)}))

    def reconfigure(self) -> None:
        """RECONFIGURE: makes every value effective."""
        for name, (value, _) in list(self._values.items()):
            self._values[name] = (value, value)
