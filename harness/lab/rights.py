"""Whether a login may do what the harness does on a user's own server, and how it could."""

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
    """A right that a login lacks. The statement that cures it is an administrator's to run."""

    permission: str
    needed_for: str
    is_required: bool
    remedy: str


def missing(instance: Instance, connection: pyodbc.Connection) -> list[Right]:
    """The rights that the connection's login lacks, in the order in which they are needed."""
    return [
        Right(row["permission"], row["needed_for"], bool(row["is_required"]), row["cure"])
        for row in scripts.rows(connection, "server/rights.sql", {"Database": instance.database})
        if row["is_held"] != 1
    ]


def refusal(instance: Instance, lacking: Sequence[Right]) -> str:
    """One line for the rights without which nothing can be created; "" where there are none of these."""
    required = [right for right in lacking if right.is_required]
    if not required:
        return ""
    first, *others = required
    who = instance.login.user if instance.login else "this account"
    line = f"{place(instance)}: {who} lacks {first.permission}, needed for {first.needed_for}: {first.remedy}"
    if others:
        line += (
            f" It lacks {', '.join(right.permission for right in others)} too; sql/server/minimal_rights.sql has all"
        )
    return line


def remarks(instance: Instance, lacking: Sequence[Right]) -> list[str]:
    """Lines for the rights without which the sweep goes on."""
    return [
        f"{instance.name}: without {right.permission}, the run goes without {right.needed_for}"
        for right in lacking
        if not right.is_required
    ]
