"""Files of others: a value in one is a single name, number or text to the server, or the file is refused in one line."""

import json
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.activator import config
from harness.cli.outcomes import Failure, one_line_errors
from harness.definitions.lab_kinds import SERVERS
from harness.experiments import technique_scenario
from harness.files import lab_file, matrix_file, workload_file
from harness.files import settings as run_settings
from harness.files.toml_file import Key, TomlFile, keys
from harness.lab import compose, ledger, link, user_servers
from harness.lab.instances import connections
from harness.simulation import parameters, simulated_lab
from harness.simulation.simulated_lab import NO_DRIVER, SimulatedLab, VirtualConnection
from tests.examples import share
from tests.token_structure import HOSTILE, structure

Values = dict[str, Any]
SIDE = {"user": "harness", "port": 1433, "broker_port": 4022, "admin_port": 1434, "encrypt": "strict"}
LAB: Values = {
    "version": "2022",
    "prefix": "p_",
    "target": {**SIDE, "host": "t", "broker_host": "10.0.0.1", "database": "p_t", "authentication": "sql"},
    "initiator": [
        {**SIDE, "host": "i", "broker_host": "10.0.0.2", "database": "p_i", "trust_server_certificate": True}
    ],
}
PROCEDURE = (
    "CREATE OR ALTER PROCEDURE dbo.Extra AS EXEC (N'SELECT N''$(Text)'' AS [$(Text)], $(Number);') PRINT N'$(Text)';"
)
WORKLOAD: Values = {
    "about": "a",
    "client": {"procedure": "dbo.SubmitOrder", "parameters": ["handle", "body"], "think_time": "0s"},
    "both": {"scripts": ["extra.sql"]},
    "initiator": {"scripts": ["submit_order.sql"]},
    "target": {
        "scripts": ["handle_orders.sql"],
        "activation_procedure": "dbo.HandleOrders",
        "receive_top": 9,
        "tables": "heap",
    },
    "names": {
        "message_type": "//M",
        "contract": "//C",
        "initiator_service": "//I",
        "target_service": "//T",
        "initiator_queue": "dbo.I",
        "target_queue": "dbo.[//T]",
    },
    "accounting": {"by": "header"},
    "variables": {"WorkMs": 5, "Text": "x", "Number": 5},
}
PAPER = parameters.read("paper")
ENGINE = compose.Engine(processors=1, memory_bytes=2**30, kernel="6.1", root="/", is_rootless=False)
SERVER = {"host": "s", "user": "u", "database": "d", "notification_queue": "dbo.N", "encrypt": "optional"}


def of_package(path: Path) -> Values:
    return tomllib.loads(path.read_text(encoding="utf-8"))


# What else is read, by the function that reads it; of these no value goes into T-SQL but by one of the types above.
READ: list[tuple[Callable[[Path], object], Values]] = [
    (config.read, {"logs": "l", "server": SERVER, "queue": [{"name": "dbo.Q", "database": "d", "command": ["true"]}]}),
    (
        lambda path: run_settings.create({}, file=path, environment={}),
        {
            "lab": "sqlserver",
            "lab_file": "lab.toml",
            "driver": "auto",
            "workload": "paper",
            "cells": ["i1-*"],
            "rate": 5,
        },
    ),
    (lambda path: matrix_file.read(str(path)), of_package(matrix_file.FOLDER / "quick.toml")),
    (technique_scenario.read, of_package(technique_scenario.DEFAULT)),
    (lambda path: parameters.read(str(path)), of_package(parameters.FOLDER / "paper.toml")),
]


def toml(values: Any) -> str:
    """A table as TOML within a line; of other values it is written as JSON is."""
    if isinstance(values, dict):
        return f"{{{', '.join(f'{key} = {toml(value)}' for key, value in values.items())}}}"
    return f"[{', '.join(map(toml, values))}]" if isinstance(values, list) else json.dumps(values)


def written(values: Values, key: Key = (), value: str = "") -> str:
    """A file with these values, one of them replaced."""
    values = json.loads(json.dumps(values))
    at: Any = values
    for part in key[:-1]:
        at = at[part]
    if key:
        at[key[-1]] = value
    return "".join(f"{name} = {toml(given)}\n" for name, given in values.items())


def changed_in(values: Values) -> st.SearchStrategy[tuple[Key, str]]:
    """A key with a hostile value, which may begin as an honest one does."""
    return st.tuples(
        st.sampled_from([*keys(values)]), st.tuples(st.sampled_from(["", "a", "dbo.a"]), HOSTILE).map("".join)
    )


def lab_of(file: lab_file.LabFile) -> SimulatedLab:
    lab = simulated_lab.open(PAPER, version="2022", initiators=1, seed=1)
    lab.kind, lab.prefix = SERVERS, file.prefix
    for instance, server in zip(lab.instances, file.servers, strict=True):
        own = user_servers.instance_of(server, NO_DRIVER)
        for name in ("database", "host", "port", "broker_host", "broker_port", "listener_ip", "admin_port"):
            setattr(instance, name, getattr(own, name))
    return lab


def link_and_remove(lab: SimulatedLab) -> None:
    with connections(lab.instances, "master") as opened:
        for instance, connection in zip(lab.instances, opened, strict=True):
            others = lab.initiators if instance is lab.target else [lab.target]
            holdings = ledger.read_holdings(instance, connection, lab.prefix)
            ledger.begin(instance, connection, holdings, ledger.planned(instance, others, lab.prefix))
    link.link(lab)
    with connections(lab.instances, "master") as opened:
        for instance, connection in zip(lab.instances, opened, strict=True):
            holdings = ledger.read_holdings(instance, connection, lab.prefix)
            ledger.remove(instance, connection, holdings, lab.prefix, lambda text: None)


def is_refused(run: Callable[[], object]) -> bool:
    """Whether a command would end with a line in place of it."""
    try:
        with one_line_errors():
            run()
    except Failure as failure:
        assert failure.message and "\n" not in failure.message
        return True
    return False


def assert_harmless(
    monkeypatch: pytest.MonkeyPatch, values: Values, run: Callable[[str], None], *, examples: int
) -> None:
    """Assert that no value of a file changes the tokens of what is sent, until it is refused."""
    batches: list[str] = []
    send = VirtualConnection.run

    def record_and_send(self: VirtualConnection, text: str, *more: Any) -> Any:
        if not text.startswith("BEGIN TRANSACTION;\nBEGIN TRY"):  # a refused batch again, to find the line of its error
            batches.append(text)
        return send(self, text, *more)

    monkeypatch.setattr(VirtualConnection, "run", record_and_send)
    monkeypatch.setenv("HARNESS_PASSWORD", "p")
    run(written(values))
    honest = [structure(batch) for batch in batches]

    @settings(max_examples=share(examples))
    @given(changed_in(values))
    def check(changed: tuple[Key, str]) -> None:
        batches.clear()
        refused = is_refused(lambda: run(written(values, *changed)))
        sent = [structure(batch) for batch in batches]
        assert sent == (honest[: len(sent)] if refused else honest)

    check()


def test_a_lab_file_changes_no_token_of_what_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(text: str) -> None:
        link_and_remove(lab_of(lab_file.check(TomlFile(text, Path("lab.toml")))))

    assert_harmless(monkeypatch, LAB, run, examples=120)  # most are refused at once


def test_a_workload_changes_no_token_of_what_is_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "own"
    shutil.copytree(workload_file.FOLDER / "fan-in", folder)
    (folder / "extra.sql").write_text(PROCEDURE)
    honest = lab_file.check(TomlFile(written(LAB), Path("lab.toml")))

    def run(text: str) -> None:
        (folder / workload_file.FILE).write_text(text)
        lab = lab_of(honest)
        lab.workload = workload_file.read(str(folder))
        link_and_remove(lab)

    assert_harmless(monkeypatch, WORKLOAD, run, examples=40)


@pytest.mark.parametrize("read, values", READ)
def test_any_other_file_is_read_or_refused_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, read: Callable[[Path], object], values: Values
) -> None:
    monkeypatch.setenv("HARNESS_PASSWORD", "p")
    file = tmp_path / "own.toml"

    @given(changed_in(values), st.sampled_from(["", "\0"]))
    def check(changed: tuple[Key, str], end: str) -> None:
        key, value = changed
        file.write_text(written(values, key, value + end))
        is_refused(lambda: read(file))

    check()


@given(st.sampled_from(["ACCEPT_EULA", "MSSQL_SA_PASSWORD", "MSSQL_INITIATORS", "MSSQL_MEMORY_LIMIT_MB"]), HOSTILE)
def test_values_of_the_containers_are_read_or_refused_in_one_line(name: str, value: str) -> None:
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        patch.setattr(compose, "ROOT", Path(folder))
        Path(folder, compose.ENV_FILE).write_text(f"MSSQL_SA_PASSWORD=aA1!aaaa\n{name}={value}\n")
        for read in (compose.password, compose.initiators, lambda: compose.require_memory(ENGINE, 1)):
            is_refused(read)
