"""Django with mssql-django: it describes a table as a model, and reads and writes rows by it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.server import DATABASE, HOST, PASSWORD, Server

pytestmark = pytest.mark.process

pytest.importorskip("mssql", reason="mssql-django is not installed: make clients")
pytest.importorskip("mssql_python", reason="mssql-python is not installed: make clients")

SETTINGS = """
DATABASES = {{"default": {{
    "ENGINE": "mssql", "NAME": "{database}", "USER": "sa", "PASSWORD": "{password}", "HOST": "{host}", "PORT": "{port}",
    "OPTIONS": {{"python_driver": "mssql_python", "extra_params": "TrustServerCertificate=yes;Encrypt=no"}},
}}}}
INSTALLED_APPS = ["people"]
"""
ROWS = """
from people.models import People
People.objects.create(name="Anna", age=7)
People.objects.filter(name="Anna").update(age=8)
print([(one.name, one.age, one.born) for one in People.objects.filter(age__lt=9)])
People.objects.all().delete()
"""


def test_inspectdb_makes_a_model_that_reads_and_writes_rows(server: Server, tmp_path: Path) -> None:
    def django(*words: str) -> str:
        ended = subprocess.run(
            [sys.executable, "-m", "django", *words],
            env=os.environ | {"DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    where = {"database": DATABASE, "password": PASSWORD, "host": HOST, "port": server.port}
    (tmp_path / "site_settings.py").write_text(SETTINGS.format(**where), encoding="ascii")
    (tmp_path / "people").mkdir()
    model = django("inspectdb", "people")
    assert "Unable to inspect" not in model
    assert "name = models.CharField(unique=True, max_length=40" in model
    assert "born = models.DateField(blank=True, null=True)" in model
    (tmp_path / "people" / "models.py").write_text(model, encoding="utf-8")
    assert "[('Anna', 8, None)]" in django("shell", "--command", ROWS)
