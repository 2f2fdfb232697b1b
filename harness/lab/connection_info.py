"""How a user connects to a lab, and which lab it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from harness.lab import compose
from harness.lab.instances import Instance, Lab
from harness.lab.selection import Selection

_NATURE = {
    "embedded": "this repository's small servers on this machine; their numbers are not SQL Server's",
    "containers": "SQL Server in containers on this machine",
    "servers": "SQL Server on your own servers",
}


def first_line(selection: Selection) -> str:
    """Return the line with which every command that uses a lab begins."""
    return f"lab: {selection.topology.kind} ({selection.why}) - {_NATURE[selection.topology.place]}"


def lines(lab: Lab) -> Iterator[str]:
    """Yield how to connect to each instance. An embedded lab's password is written to a file of this user's."""
    secret = None
    if lab.place == "embedded":
        assert lab.target.login is not None
        secret = lab.directory / "password"
        descriptor = os.open(secret, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(lab.target.login.password)
        yield f"login: sa; password, valid while the lab is open: cat {secret}"
    elif lab.place == "containers":
        yield f"login: sa; its password is in {compose.password_place()}"
    for instance in lab.instances:
        user = f"-U {instance.login.user}" if instance.login else "-E"
        yield f"{instance.name}: {instance.host},{instance.port} database {instance.database}"
        given = f"SQLCMDPASSWORD=$(cat {secret}) " if secret else ""
        yield f"  {given}sqlcmd -C -S {instance.host},{instance.port} {user} -d {instance.database}"
        yield f"  {_pyodbc(instance, secret)}"


def _pyodbc(instance: Instance, secret: Path | None) -> str:
    public = ";".join(part for part in instance.connection_string().split(";") if not part.startswith("PWD="))
    password = f'open("{secret}").read()' if secret else "getpass.getpass()"
    ending = f';PWD=" + {password})' if instance.login else '")'
    return f'pyodbc.connect("{public}{ending}'
