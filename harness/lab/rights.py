"""The rights that a login lacks on a user's own server, and the statements that grant them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.lab import scripts
from harness.lab.instances import Instance
from harness.lab.ledger import place

if TYPE_CHECKING:
    import pyodbc


@dataclass(frozen=True, slots=True)
class Right:
    """A right that a login lacks. An administrator has to run the remedy."""

    permission: str
    needed_for: str
    is_required: bool
    remedy: str


def missing(instance: Instance, connection: pyodbc.Connection) -> list[Right]:
    """List the rights that the connection's login lacks, in the order in which they are needed."""
    return [
        Right(row["permission"], row["needed_for"], bool(row["is_required"]), row["remedy"])
        for row in scripts.rows(connection, "server/rights.sql", {"Database": instance.database})
        if row["is_held"] != 1
    ]


def refusal(instance: Instance, lacking: Sequence[Right]) -> str:
    """Return one line about the rights without which nothing can be created; "" if none of these is missing."""
    required = [right for right in lacking if right.is_required]
    if not required:
        return ""
    first, *others = required
    who = instance.login.user if instance.login else "this account"
    line = f"{place(instance)}: {who} lacks {first.permission}, needed for {first.needed_for}: {first.remedy}"
    if others:
        more = ", ".join(right.permission for right in others)
        line += f" It also lacks {more}; sql/server/minimal_rights.sql grants all"
    return line


def remarks(instance: Instance, lacking: Sequence[Right]) -> list[str]:
    """Return a line for each missing right without which a run is still possible."""
    return [
        f"{instance.name}: without {right.permission}, the run does not include {right.needed_for}"
        for right in lacking
        if not right.is_required
    ]
