"""Facts about the instances: the results of the queries in `sql/doctor`, each run once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.doctor.findings import Finding, error, warning
from harness.failures import MachineFailure
from harness.lab import scripts
from harness.lab.instances import Instance

if TYPE_CHECKING:
    import pyodbc

Row = Mapping[str, Any]

QUESTIONS = (
    "rights",
    "edition",
    "configuration",
    "tempdb_files",
    "database",
    "brokers",
    "master_keys",
    "service",
    "contract",
    "routes",
    "arriving_routes",
    "endpoint",
    "endpoint_grants",
    "endpoint_certificates",
    "dialog_certificates",
    "service_grants",
    "bindings",
    "files",
    "log_space",
)
RIGHTS = {
    "sees_server_definitions": "VIEW ANY DEFINITION",
    "sees_database_definitions": "VIEW DEFINITION",
    "sees_server_state": "VIEW SERVER STATE",
}
_ACCELERATED_RECOVERY_SINCE = 15


@dataclass
class Facts:
    """One instance's query results. A query that failed has no result, and its error is in `failures`."""

    instance: Instance
    local_name: str
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.instance.name

    def rows(self, question: str) -> Sequence[Row]:
        """Return the rows, none if the query failed: use `knows` where that matters."""
        return self.answers.get(question, [])

    def row(self, question: str) -> Row | None:
        """Return the only row, None if there is none."""
        found = self.rows(question)
        return found[0] if found else None

    def knows(self, *questions: str) -> bool:
        return all(question in self.answers for question in questions)

    def sees(self, what: str) -> bool:
        """Return whether the login may see what a view shows, so that a missing row means a missing object.

        `what` is a column of rights.sql.
        """
        rights = self.row("rights")
        return rights is None or bool(rights[what])

    @property
    def broker_instance(self) -> str:
        """The service_broker_guid of the lab's database, in upper case."""
        row = self.row("database")
        return str(row["service_broker_guid"]).upper() if row else ""

    @property
    def major_version(self) -> int:
        """The major version: 10 is SQL Server 2008, 0 means unknown."""
        row = self.row("edition")
        return int(str(row["product_version"]).partition(".")[0]) if row else 0


def read(instance: Instance, local_name: str, connection: pyodbc.Connection) -> Facts:
    """Run all queries. One that fails is recorded, and the others still run."""
    facts = Facts(instance, local_name)
    for question in QUESTIONS:
        _ask(facts, connection, question)
    if facts.major_version >= _ACCELERATED_RECOVERY_SINCE:
        _ask(facts, connection, "accelerated_recovery")
    volumes: list[dict[str, Any]] = []
    for file in facts.rows("files"):
        _ask(facts, connection, "volume", FileId=str(file["file_id"]))
        volumes += [{"file_id": file["file_id"], **row} for row in facts.answers.pop("volume", [])]
    facts.answers["volumes"] = volumes
    return facts


def _ask(facts: Facts, connection: pyodbc.Connection, question: str, **variables: str) -> None:
    try:
        facts.answers[question] = scripts.rows(connection, f"doctor/{question}.sql", variables)
    except MachineFailure as error:
        facts.failures[question] = str(error)
    if facts.failures:
        facts.instance.check()


def unanswered(facts: Facts) -> list[Finding]:
    """Report each query that failed, so that no finding means no problem."""
    return [
        warning(
            facts.name,
            question,
            f"not examined: {reason}",
            "grant the rights that the doctor needs with sql/server/minimal_rights.sql",
        )
        for question, reason in facts.failures.items()
    ]


def absent(facts: Facts, right: str, check: str, text: str, remedy: str) -> Finding:
    """Report that something is missing: an error, or a warning if the login may not see it."""
    if facts.sees(right):
        return error(facts.name, check, text, remedy)
    needed = RIGHTS[right]
    return warning(
        facts.name, check, f"{text}, or the login cannot see it without {needed}", f"GRANT {needed} to the login"
    )
