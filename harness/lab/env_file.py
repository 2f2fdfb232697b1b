"""`.env` beside docker-compose.yml: values that Compose and the harness share, among them the password of sa.

Only this user may read it: it is created with mode 0600, reset to that if its mode is wider, and refused if it belongs
to somebody else. Values in it are never overwritten.
"""

from __future__ import annotations

import os
import secrets
import stat
import string
from pathlib import Path

from harness.failures import MachineFailure
from harness.lab.drivers import Secret

NAME = ".env"
_PASSWORD = "MSSQL_SA_PASSWORD"
_PASSWORD_LENGTH = 32
_HEAD = """\
# Values for docker-compose.yml, whose head lists their names. Written on first use, never overwritten.
# ACCEPT_EULA=Y says that you accept Microsoft's licence terms for SQL Server.
"""


class EnvFileError(MachineFailure):
    """The file cannot be used, because of its owner, its mode or a value in it."""


def read(folder: Path) -> dict[str, Secret]:
    """Return the values of the file, none if there is no file. Its mode is corrected first."""
    path = folder / NAME
    try:
        _make_private(path)
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise EnvFileError(f"{path} cannot be read: {error}") from None
    values: dict[str, Secret] = {}
    for line in lines:
        name, sign, text = line.strip().removeprefix("export ").partition("=")
        if sign and not name.startswith("#"):
            values[name.strip()] = Secret(_unquoted(text.strip()))
    return values


def password(folder: Path) -> Secret:
    """Return sa's password, created and stored if there is none. Raises EnvFileError if SQL Server would refuse it."""
    found = read(folder).get(_PASSWORD)
    if not found:
        found = new_password()
        _add(folder / NAME, f"{_PASSWORD}={found}\n")
    return strong(found, str(folder / NAME))


def strong(password: Secret, place: str) -> Secret:
    """Return the password. Raises EnvFileError if SQL Server would refuse it."""
    if not satisfies_policy(password):
        raise EnvFileError(
            f"{_PASSWORD} in {place} is too weak for SQL Server: use 8 characters or more, of three of these kinds: "
            "upper case, lower case, digits, others"
        )
    return password


def new_password() -> Secret:
    """Create a password of letters and digits only, which no file format, shell or connection string interprets."""
    alphabet = string.ascii_letters + string.digits
    while True:
        text = "".join(secrets.choice(alphabet) for _ in range(_PASSWORD_LENGTH))
        if satisfies_policy(text):
            return Secret(text)


def satisfies_policy(text: str) -> bool:
    """Return whether SQL Server accepts a password.

    Source: https://learn.microsoft.com/sql/relational-databases/security/password-policy
    """
    kinds = (str.isupper, str.islower, str.isdigit, lambda character: not character.isalnum())
    return 8 <= len(text) <= 128 and sum(any(kind(character) for character in text) for kind in kinds) >= 3


def _make_private(path: Path) -> None:
    status = path.stat()
    if not stat.S_IMODE(status.st_mode) & 0o077:
        return
    try:
        path.chmod(0o600)
    except PermissionError:
        raise EnvFileError(
            f"{path} holds a password that others may read, and belongs to another user: have its owner chmod 600 it"
        ) from None


def _add(path: Path, line: str) -> None:
    """Add a line by replacing the file, so that nobody reads half of it."""
    try:
        before = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        before = _HEAD
    if before and not before.endswith("\n"):
        before += "\n"
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(before + line)
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise EnvFileError(f"{path} cannot be written: {error.strerror}") from None


def _unquoted(text: str) -> str:
    """Return a value without quotes, or without the comment that follows it, as Compose reads it."""
    if len(text) > 1 and text[0] in "'\"" and text[0] in text[1:]:
        return text[1 : text.index(text[0], 1)]
    return text.partition(" #")[0].strip()
