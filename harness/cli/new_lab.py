"""Ask for a user's own servers, and write what is answered as a lab file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter, ValidationError

from harness.cli.outcomes import USAGE, Failure
from harness.definitions.matrix import INITIATORS_MAX
from harness.files import lab_file
from harness.files.lab_file import ServerKeys
from harness.files.toml_file import TomlError, TomlFile, in_words
from harness.output.terminal import say


def write(path: Path) -> None:
    """Ask, and write the file; raises Failure where it cannot be written."""
    version = click.prompt("Version of SQL Server", type=click.Choice(list(lab_file.MAJORS)), default="2022")
    number = click.prompt("How many initiators", type=click.IntRange(1, INITIATORS_MAX), default=1)
    brakes = click.confirm(
        "Does anybody else use these servers (if so, a run ends before it takes what they need)", default=True
    )
    text = f"version = {json.dumps(version)}\nbrakes = {json.dumps(brakes)}\n"
    text, usual = _with_side(text, path, "target", "[target]", {})
    for place in range(1, number + 1):
        text, usual = _with_side(text, path, f"initiator {place}", "[[initiator]]", usual)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}", USAGE) from None


def _with_side(text: str, path: Path, side: str, table: str, usual: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Ask for a side until it goes with those before; return the text with it, and its keys."""
    while True:
        keys = _asked(side, usual)
        added = "\n".join(["", table, *(f"{key} = {json.dumps(value)}" for key, value in keys.items()), ""])
        try:
            if table == "[[initiator]]":  # a file of a target alone is not whole
                lab_file.check(TomlFile(text + added, path))
        except TomlError as error:
            say(f"Error: {error}")
        else:
            return text + added, keys


def _asked(side: str, usual: Mapping[str, Any]) -> dict[str, Any]:
    """Ask for a side's keys; what the side before has is the default of what servers usually have in common."""
    keys: dict[str, Any] = {"host": _value(f"Host of the {side}", "host", None)}
    keys["port"] = _value("  its port", "port", usual.get("port", 1433))
    keys["broker_port"] = _value("  port of its Service Broker endpoint", "broker_port", usual.get("broker_port", 4022))
    kinds = click.Choice(["sql", "integrated", "entra"])
    keys["authentication"] = click.prompt("  authentication", type=kinds, default=usual.get("authentication", "sql"))
    if keys["authentication"] != "integrated":
        keys["user"] = _value("  login (with entra: the application's id)", "user", usual.get("user", "harness"))
    trusted = usual.get("trust_server_certificate", False)
    keys["trust_server_certificate"] = click.confirm("  accept a self-signed certificate", default=trusted)
    if database := _value("  an application's database to use (Enter: a new one)", "existing_database", ""):
        keys["existing_database"] = database
    return keys


def _value(question: str, key: str, default: Any) -> Any:
    """Ask until the answer is one that the lab file takes."""
    field = ServerKeys.model_fields[key]
    kind = TypeAdapter(field.rebuild_annotation())

    def read(text: str) -> Any:
        try:
            return kind.validate_python(text or None)
        except ValidationError as error:
            raise click.BadParameter(in_words(error.errors()[0], [])) from None

    return click.prompt(question, default=default, show_default=default != "", value_proc=read)
