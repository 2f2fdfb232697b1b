"""Passwords for SQL Server: new ones, and whether it accepts one."""

import secrets
import string

from harness.lab.drivers import Secret

_LENGTH = 32


def new() -> Secret:
    """Create a password of letters and digits only, which no file format, shell or connection string interprets."""
    alphabet = string.ascii_letters + string.digits
    while True:
        text = "".join(secrets.choice(alphabet) for _ in range(_LENGTH))
        if satisfies_policy(text):
            return Secret(text)


def satisfies_policy(text: str) -> bool:
    """Return whether SQL Server accepts a password.

    Source: https://learn.microsoft.com/sql/relational-databases/security/password-policy
    """
    kinds = (str.isupper, str.islower, str.isdigit, lambda character: not character.isalnum())
    return 8 <= len(text) <= 128 and sum(any(kind(character) for character in text) for kind in kinds) >= 3
