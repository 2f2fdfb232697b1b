"""Declarations of a table's columns and keys."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.embedded.sqltypes import SqlType


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    name: str
    type: SqlType
    nullable: bool = True
    identity: tuple[int, int] | None = None  # seed, increment
    default: str | None = None  # its text: stored with the table
    unique: bool = False


@dataclass(slots=True)
class TableBody:
    columns: list[ColumnDefinition] = field(default_factory=list)
    primary_key: list[str] = field(default_factory=list)
    primary_key_name: str = ""
    unique: list[list[str]] = field(default_factory=list)
