"""The wheel in one environment with Django, FastAPI and SQLAlchemy: its requirements allow theirs, and a project with all three
tests itself with the fixture `service_broker`."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import installed, run_installed, wheel  # noqa: F401  fixtures

pytestmark = pytest.mark.process

for name in ("django", "fastapi", "sqlalchemy", "mssql", "mssql_python", "pymssql"):
    pytest.importorskip(name, reason=f"{name} is not installed: make clients")

PROJECT = """
import django.conf, fastapi, pymssql, mssql_python, pyodbc, pytest, sqlalchemy
from fastapi.testclient import TestClient

QUEUE = ["CREATE QUEUE q", "CREATE SERVICE s ON QUEUE q ([DEFAULT])"]
SEND = "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF; SEND ON CONVERSATION @h (N'hello')"
LOOK = "SELECT CAST(message_body AS nvarchar(10)) FROM q"


@pytest.mark.parametrize("driver", ["pyodbc", "pymssql", "mssqlpython"])
def test_an_application_of_fastapi_and_sqlalchemy(service_broker, driver):
    engine = sqlalchemy.create_engine(service_broker.sqlalchemy(driver))
    app = fastapi.FastAPI()

    @app.post("/hello")
    def hello():
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(SEND))

    with engine.begin() as connection:
        for statement in QUEUE:
            connection.execute(sqlalchemy.text(statement))
    assert TestClient(app).post("/hello").status_code == 200
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text(LOOK)).scalars().all() == ["hello"]
    engine.dispose()


@pytest.mark.parametrize("driver", ["pyodbc", "mssql_python", "pymssql"])
def test_a_driver_alone(service_broker, driver):
    connection = {
        "pyodbc": lambda: pyodbc.connect(service_broker.odbc),
        "mssql_python": lambda: mssql_python.connect(service_broker.mssql_python),
        "pymssql": lambda: pymssql.connect(**service_broker.pymssql),
    }[driver]()
    cursor = connection.cursor()
    cursor.execute("SELECT DB_NAME()")
    assert cursor.fetchone()[0] == service_broker.database
    connection.close()


def test_django(service_broker):
    where = service_broker.pymssql
    options = {"python_driver": "mssql_python", "extra_params": "TrustServerCertificate=yes;Encrypt=no"}
    settings = {"ENGINE": "mssql", "HOST": where["server"], "PORT": where["port"], "USER": where["user"]}
    settings |= {"PASSWORD": where["password"], "NAME": service_broker.database, "OPTIONS": options}
    django.conf.settings.configure(DATABASES={"default": settings})
    from django.db import connection

    with connection.cursor() as cursor:
        for statement in [*QUEUE, SEND, LOOK]:
            cursor.execute(statement)
        assert cursor.fetchall() == [("hello",)]
    connection.close()
"""


def test_a_project_with_django_fastapi_and_sqlalchemy_tests_itself(
    installed: Path,  # noqa: F811
    run_installed: Callable[..., str],  # noqa: F811
    tmp_path: Path,
) -> None:
    python = installed.with_name("python")
    (tmp_path / "test_project.py").write_text(PROJECT)
    assert "7 passed" in run_installed(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    checked = run_installed(sys.executable, "-m", "pip", "--python", python, "check", cwd=tmp_path)
    assert "No broken requirements found" in checked
