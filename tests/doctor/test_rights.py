"""The doctor with a login that is not sysadmin."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from harness import doctor
from harness.definitions.matrix import all_cells
from harness.files import settings
from harness.lab import scripts
from harness.lab.drivers import Secret
from harness.lab.instances import Lab, Login, connections
from tests.doctor.conftest import ills

pytestmark = pytest.mark.process

LIMITED = Login("limited", Secret("Str0ng!limited"))


@pytest.fixture
def administrators(lab: Lab) -> Iterator[Sequence[Any]]:
    """Connections of sysadmin."""
    with connections(lab.instances, "master") as opened:
        yield opened


@pytest.fixture
def limited(lab: Lab, administrators: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The lab, for a login that is db_owner of its databases and has no rights on the server."""
    for instance, connection in zip(lab.instances, administrators, strict=True):
        scripts.execute(connection, f"CREATE LOGIN [limited] WITH PASSWORD = N'{LIMITED.password}';")
        scripts.execute(connection, f"USE [{instance.database}]; CREATE USER [limited] FOR LOGIN [limited];")
        scripts.execute(connection, "ALTER ROLE [db_owner] ADD MEMBER [limited];")
        monkeypatch.setattr(instance, "login", LIMITED)
        monkeypatch.setattr(instance, "admin_port", None)
    yield lab
    for instance, connection in zip(lab.instances, administrators, strict=True):
        scripts.execute(connection, f"USE [{instance.database}]; DROP USER [limited];")
        scripts.execute(connection, "USE master; DROP USER IF EXISTS [limited]; DROP LOGIN [limited];")


def examined(lab: Lab) -> list[doctor.Finding]:
    return doctor.examine(lab, cells=all_cells(), settings=settings.Settings())


def test_the_rights_that_the_harness_asks_for_suffice(limited, administrators):
    for connection in administrators:
        scripts.run(connection, "server/minimal_rights.sql", {"Login": LIMITED.user})
    assert ills(examined(limited)) == []


def test_what_the_login_may_not_see_is_a_warning_instead_of_an_error(limited):
    findings = examined(limited)

    assert {finding.severity for finding in findings} == {"warning", "information"}
