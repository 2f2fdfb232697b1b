"""The versions an instance can present, and its configuration options: those of sys.configurations that mean something
here.

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


# ProductVersion of each version: the last service pack, or the first release where there are none.
PRODUCTS = {
    "2005": ("9.00.5000.00", "SQL Server 2005"),
    "2008": ("10.0.6000.29", "SQL Server 2008"),
    "2012": ("11.0.7001.0", "SQL Server 2012"),
    "2014": ("12.0.6024.0", "SQL Server 2014"),
    "2016": ("13.0.6300.2", "SQL Server 2016"),
    "2017": ("14.0.1000.169", "SQL Server 2017"),
    "2019": ("15.0.2000.5", "SQL Server 2019"),
    "2022": ("16.0.1000.6", "SQL Server 2022"),
    "2025": ("17.0.1000.7", "SQL Server 2025"),
}


def product(version: str) -> tuple[str, str]:
    """SERVERPROPERTY('ProductVersion'), and the name in @@VERSION."""
    return PRODUCTS.get(version, (version, f"SQL Server {version}"))
