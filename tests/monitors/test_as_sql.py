"""The questions as T-SQL: every batch of them is answered."""

import re
from pathlib import Path

import pyodbc
import pytest

from harness.lab.instances import Instance
from tests.commands import harness

pytestmark = pytest.mark.process


def test_the_questions_are_printed_and_a_server_answers_each(instance: Instance, database: str, tmp_path: Path) -> None:
    printed = harness(tmp_path, "monitors", "--sql", "--database", database)
    assert (printed.code, printed.err) == (0, "")
    batches = [batch for batch in re.split(r"^GO$", printed.out, flags=re.MULTILINE) if batch.strip()]
    connection: pyodbc.Connection = instance.connect("master")
    answered = 0
    for batch in batches:
        cursor = connection.execute(batch)
        if cursor.description is not None:
            answered += 1
            cursor.fetchall()
    assert connection.execute("SELECT DB_NAME();").fetchval() == database and answered == 12
    connection.close()


def test_without_a_database_it_is_that_of_the_connection(tmp_path: Path) -> None:
    assert "USE [" not in harness(tmp_path, "monitors", "--sql").out
