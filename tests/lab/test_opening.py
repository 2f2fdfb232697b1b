"""Which lab is selected by default, and the defaults of its settings."""

import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.cli.serving import serve
from harness.definitions.lab_kinds import CONTAINERS, EMBEDDED, SERVERS, LabKind
from harness.files.settings import SettingsError
from harness.lab import opening
from harness.lab.drivers import Driver, Secret
from harness.lab.instances import Instance, Lab, Login


@pytest.fixture(autouse=True)
def _nothing_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HARNESS_LAB", raising=False)


def chosen(*, docker: bool, **options: Any) -> opening.Selection:
    return opening.select_lab(options, engine_answers=lambda: docker)


@pytest.mark.parametrize("docker, kind, measure", [(True, CONTAINERS, 30.0), (False, EMBEDDED, 1.0)])
def test_the_default_is_sql_server_if_a_docker_engine_answers(docker: bool, kind: LabKind, measure: float) -> None:
    found = chosen(docker=docker)
    assert (found.topology.kind, found.settings.measure) == (kind, measure)
    assert "default" in found.why


def test_a_named_lab_is_selected_without_asking_docker() -> None:
    found = opening.select_lab(
        {"lab": "embedded", "measure": "5s"}, engine_answers=lambda: pytest.fail("Docker was asked")
    )
    assert (found.topology.kind, found.why) == (EMBEDDED, "as selected")
    assert (found.settings.measure, found.settings.settle) == (5.0, EMBEDDED.times["matrix"]["settle"])


def test_the_version_axis_depends_on_the_lab() -> None:
    assert chosen(docker=False).settings.server_versions == ("2005", "2008")
    assert chosen(docker=True).settings.server_versions == ("2022", "2025")
    assert chosen(docker=True, server_versions="2017 2019").settings.server_versions == ("2017", "2019")


def test_the_embedded_lab_opens_as_each_version_that_an_instance_plays() -> None:
    [version] = [option for option in serve.params if option.name == "server_version"]
    assert opening.Topology().versions == version.type.choices
    assert opening.Topology().versions[-1] == version.default


def test_a_version_that_the_lab_does_not_have_names_the_nearest() -> None:
    with pytest.raises(SettingsError, match="no server version '2021'; nearest: 2025, 2022"):
        chosen(docker=True, server_versions="2021")


def test_how_to_connect_shows_no_part_of_a_password_and_can_be_pasted() -> None:
    user, password = "o'neil;{a}", "first;second}third"
    driver, login = Driver("microsoft", "/opt/driver.so", "file"), Login(user, Secret(password))
    instance = Instance("target", "Orders", "sql1.example", 1433, 4022, driver, login, trust_server_certificate=False)
    head, sqlcmd, code = opening.how_to_connect(Lab(SERVERS, "2022", instance, [], Path()))
    assert not any(part in line for line in (head, sqlcmd, code) for part in ("first", "second", "third"))
    assert shlex.split(sqlcmd) == ["sqlcmd", "-S", "sql1.example,1433", "-U", user, "-d", "Orders"]
    asked = SimpleNamespace(getpass=lambda: "typed")
    connected = eval(code, {"getpass": asked, "pyodbc": SimpleNamespace(connect=str)})
    assert connected == replace(instance, login=Login(user, Secret("typed"))).connection_string()


def test_a_resumed_run_keeps_its_lab() -> None:
    before = chosen(docker=True, seed=7).settings.model_dump(mode="json")
    found = opening.select_lab({}, stored=before, engine_answers=lambda: False)
    assert found.settings.model_dump(mode="json") == before
    assert found.topology.kind is CONTAINERS
