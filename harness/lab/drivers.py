"""ODBC drivers for SQL Server on this machine, and connection strings for them.

Microsoft's driver from the wheel `mssql-python-odbc` comes first: a shared library that unixODBC loads by its path.
Drivers registered with the system come next. FreeTDS is the second kind. Connection strings contain the password, so
they are `Secret`: a str whose `repr` shows nothing.
"""

import importlib.util
import os
import platform
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from harness.failures import MachineFailure
from harness.machine.system_packages import FREETDS_PLACES, family, how_to_install

try:
    import pyodbc
    from pyodbc import Connection as Connection  # noqa: PLC0414  others take these two from here
    from pyodbc import Cursor as Cursor  # noqa: PLC0414

    # Before the first use of the driver manager, which `pyodbc.drivers` is too. unixODBC 2.3.12 and later would keep a
    # closed connection, and give it to the next caller with its transaction and settings, or when its server has ended.
    pyodbc.pooling = False
    OdbcError: type[Exception] = pyodbc.Error
    load_failure = ""
except ImportError as error:  # without unixODBC; `check_manager` reports it
    Connection = Cursor = Any
    OdbcError, load_failure = OSError, str(error)

Kind = Literal["microsoft", "freetds"]
Encryption = Literal["optional", "mandatory", "strict"]

# Its "ca file" has no counterpart there: https://www.freetds.org/userguide/freetdsconf.html
_UNVERIFIED = (
    "FreeTDS verifies no certificate because a connection string asks it to: set trust_server_certificate = true, or "
    "use Microsoft's driver (pip install mssql-python-odbc)"
)
# Version 17 knows `yes` and `no` alone, 18 also `optional`, `mandatory` and `strict`:
# https://learn.microsoft.com/sql/connect/odbc/major-version-differences
_ENCRYPT = {"optional": "no", "mandatory": "yes", "strict": "strict"}
_BEFORE_STRICT = re.compile(r"ODBC Driver 1[137] |libmsodbcsql-1[137]\.")
_INSTALLER = "https://learn.microsoft.com/sql/connect/odbc/download-odbc-driver-for-sql-server"
_WHEEL_FOLDERS = {"macos": "macos", "suse": "linux/suse", "fedora": "linux/rhel"}
LOGIN_TIMEOUT_S = 15  # an instance that takes longer to sign in counts as unreachable


class NoDriver(MachineFailure):
    """There is no usable ODBC driver. The message says what to install."""


class Secret(str):
    """Text that no repr shows, so neither a traceback's locals nor a dataclass."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "Secret(...)"


@dataclass(frozen=True, slots=True)
class Driver:
    """One ODBC driver: its kind, what to write after `Driver=`, and where it comes from."""

    kind: Kind
    name: str
    origin: str

    def connection_string(
        self,
        *,
        host: str,
        port: int,
        user: str | None,
        password: str | None,
        is_entra: bool = False,
        database: str,
        program: str,
        encrypt: Encryption = "optional",
        trust_server_certificate: bool = True,
    ) -> Secret:
        """Return a connection string for `pyodbc.connect`. Without a user it asks for integrated authentication; an
        application that Microsoft Entra knows (`is_entra`) signs in with id and secret, by Microsoft's driver alone:
        https://learn.microsoft.com/sql/connect/odbc/using-azure-active-directory

        Instances that the harness starts have self-signed certificates, which are therefore trusted by default. Those
        of a lab file have its values. Integrated authentication is Kerberos on Linux. Raises NoDriver where the driver
        cannot verify a certificate, or does not know strict encryption.
        """
        signed_in = {"Trusted_Connection": "yes"} if user is None else {"UID": user, "PWD": password or ""}
        if is_entra:
            if self.kind != "microsoft":
                raise NoDriver('FreeTDS does not know authentication = "entra": pip install mssql-python-odbc')
            signed_in["Authentication"] = "ActiveDirectoryServicePrincipal"
        # unixODBC keeps the lowest byte of each character, so each must be one byte of the path.
        library = os.fsencode(self.name).decode("latin-1")
        parts = {"DRIVER": library, **signed_in, "DATABASE": database, "APP": program}
        if self.kind == "microsoft":
            if encrypt == "strict" and _BEFORE_STRICT.search(self.name):
                raise NoDriver(
                    f"{self.name} does not know encrypt = strict: use version 18 (pip install mssql-python-odbc)"
                )
            trust = "yes" if trust_server_certificate else "no"
            parts |= {"SERVER": f"{host},{port}", "TrustServerCertificate": trust, "Encrypt": _ENCRYPT[encrypt]}
        else:
            parts |= {"SERVER": host, "PORT": str(port), "TDS_Version": "7.4", "ClientCharset": "UTF-8"}
            if encrypt != "optional":
                if not trust_server_certificate:
                    raise NoDriver(_UNVERIFIED)
                parts |= {"Encryption": {"mandatory": "require"}.get(encrypt, encrypt)}
        return Secret(";".join(f"{key}={_quoted(value)}" for key, value in parts.items()))


def _quoted(value: str) -> str:
    """Quote a value for ODBC: one with special characters in braces, closing braces doubled."""
    if value.replace("-", "").replace("_", "").replace(".", "").replace("/", "").replace(",", "").isalnum():
        return value
    return "{" + value.replace("}", "}}") + "}"


def connect(connection_string: Secret) -> Connection:
    """Open a connection with autocommit. Raises OdbcError."""
    return pyodbc.connect(connection_string, autocommit=True, timeout=LOGIN_TIMEOUT_S)


def find() -> list[Driver]:
    """Find all drivers, the best first."""
    return [*_from_wheel(), *_registered(), *_freetds_files()]


def choose(kind: Kind | Literal["auto"] = "auto", drivers: Iterable[Driver] | None = None) -> Driver:
    """Return the best driver, or the best of a kind. Raises NoDriver if there is none."""
    available = find() if drivers is None else list(drivers)
    for driver in available:
        if kind in ("auto", driver.kind):
            return driver
    if kind == "freetds":
        raise NoDriver(f"the ODBC driver FreeTDS is not installed: {how_to_install('freetds')}")
    if family() == "windows":  # whose driver manager knows registered drivers alone
        raise NoDriver(f"no ODBC driver for SQL Server found: install Microsoft's version 18 ({_INSTALLER})")
    raise NoDriver(
        "no ODBC driver for SQL Server found: pip install mssql-python-odbc (Microsoft's driver and licence terms), "
        f"or {how_to_install('freetds')} (FreeTDS)"
    )


def check_manager() -> None:
    """Raise NoDriver unless unixODBC is installed, which pyodbc needs."""
    if load_failure:
        raise NoDriver(f"pyodbc does not load ({load_failure}): {how_to_install('unixodbc')}")


def _from_wheel() -> list[Driver]:
    package = importlib.util.find_spec("mssql_python_odbc")
    if package is None or not package.submodule_search_locations:
        return []
    machine = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
    libraries = Path(package.submodule_search_locations[0]) / "libs"
    folder = libraries / _WHEEL_FOLDERS.get(family(), "linux/debian_ubuntu") / machine / "lib"
    return [
        Driver("microsoft", str(library), "wheel mssql-python-odbc")
        for library in sorted(folder.glob("libmsodbcsql[-.]1*"), reverse=True)
    ]


def _registered() -> list[Driver]:
    names = [] if load_failure else pyodbc.drivers()
    microsoft = sorted((name for name in names if name.startswith("ODBC Driver")), reverse=True)
    freetds = [name for name in names if "freetds" in name.lower()]
    return [
        *(Driver("microsoft", name, "odbcinst.ini") for name in microsoft),
        *(Driver("freetds", name, "odbcinst.ini") for name in freetds),
    ]


def _freetds_files() -> list[Driver]:
    return [
        Driver("freetds", str(path), "file")
        for pattern in FREETDS_PLACES
        for path in sorted(Path("/").glob(pattern.lstrip("/")))
    ]
