"""The queries of sql/doctor have the columns that their heads list."""

import re

import pytest

from harness.doctor.facts import QUESTIONS
from harness.lab import scripts
from harness.lab.instances import connections

pytestmark = pytest.mark.process

FOLDER = scripts.SQL_ROOT / "doctor"
ASKED = [*QUESTIONS, "volume", "clock", "accelerated_recovery", "probe_status", "commit_waits"]


def test_every_file_is_a_query_or_belongs_to_the_probe_or_to_single_commits():
    others = {path.stem for path in FOLDER.glob("*.sql")} - set(ASKED)
    single_commits = {"commit_table", "commit", "drop_commit_table"}
    assert others == {"handles", *single_commits, *(name for name in others if name.startswith("probe_"))}


@pytest.mark.parametrize("question", ASKED)
def test_a_query_has_the_columns_that_its_head_lists(lab, question):
    head, _, body = (FOLDER / f"{question}.sql").read_text().partition("*/\n")
    announced = head.partition("Columns:")[2]
    with connections([lab.target]) as (connection,), connection.cursor() as cursor:
        cursor.execute(scripts.substitute(body.removesuffix("GO\n"), lab.target.variables | {"FileId": "1"}))
        position = 0
        for column in cursor.description:
            match = re.compile(rf"\b{column[0]}\b").search(announced, position)
            assert match, f"{column[0]} is not announced, or not in its place"
            position = match.end()
