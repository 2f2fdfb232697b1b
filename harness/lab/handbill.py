"""What a user is told about a lab: which one it is and why, and how to connect to it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from harness.lab.instances import Lab

_NATURE = {"embedded": "small servers of this repository on this machine; their numbers are not SQL Server's"}


def first_line(kind: str, *, given: bool) -> str:
    """The first line that a verb prints that uses a lab."""
    why = "as told" if given else "the default: the only kind so far"
    return f"lab: {kind} ({why}) - {_NATURE[kind]}"


def lines(lab: Lab) -> Iterator[str]:
    """How to connect to each instance. The password lies in a file of this user's alone, and goes with the lab."""
    secret = lab.directory / "password"
    descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(lab.target.password)
    yield f"login sa; its password: cat {secret}"
    for instance in lab.instances:
        yield f"{instance.name}: {instance.host},{instance.port} database {instance.database}"
        yield (
            f"  SQLCMDPASSWORD=$(cat {secret}) "
            f"sqlcmd -C -S {instance.host},{instance.port} -U sa -d {instance.database}"
        )
        public = ";".join(part for part in instance.connection_string().split(";") if not part.startswith("PWD="))
        yield f'  pyodbc.connect("{public};PWD=" + open("{secret}").read())'
