"""What the doctor knows and says: the facts about an instance, each query run once, and findings."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.failures import MachineFailure
from harness.lab import scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance

Row = Mapping[str, Any]

ABOUT_FILES = ("files", "log_space")
TRACE_FLAGS, HOST = "fingerprint_trace_flags", "fingerprint_host"
QUESTIONS = (
    *("rights", "edition", "configuration", "tempdb_files", "database", "owner", "brokers", "master_keys"),
    *("power_plan", "service", "contract", "routes", "arriving_routes"),
    *("endpoint", "endpoint_grants", "endpoint_certificates"),
    *("dialog_certificates", "service_grants", "bindings", *ABOUT_FILES),
)
RIGHTS = {
    "sees_server_definitions": "VIEW ANY DEFINITION",
    "sees_database_definitions": "VIEW DEFINITION",
    "sees_server_state": "VIEW SERVER STATE",
}
_LOG_AND_HOST_INFO_SINCE = 14
_ACCELERATED_RECOVERY_SINCE = 15


Severity = Literal["error", "warning", "information"]
SEVERITIES: Sequence[Severity] = ("error", "warning", "information")


@dataclass(frozen=True, slots=True)
class Finding:
    """An error stops messages or invalidates a run, a warning distorts its numbers, an information is worth knowing.

    `check` names what was examined. The remedy of an information may be empty.
    """

    severity: Severity
    instance: str  # target | initiator-1 ...; lab: all of them
    check: str
    text: str
    remedy: str = ""

    def __str__(self) -> str:
        line = f"{self.severity}: {self.instance}, {self.check}: {self.text}"
        return " ".join((f"{line}; remedy: {self.remedy}" if self.remedy else line).split())


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
        rows = self.rows(question)
        return rows[0] if rows else None

    def knows(self, *questions: str) -> bool:
        return all(question in self.answers for question in questions)

    def sees(self, view: str) -> bool:
        """Return whether the login may see what a view shows, so that a missing row means a missing object.

        `what` is a column of rights.sql.
        """
        rights = self.row("rights")
        return rights is None or bool(rights[view])

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

    def error(self, check: str, text: str, remedy: str) -> Finding:
        return Finding("error", self.name, check, text, remedy)

    def warning(self, check: str, text: str, remedy: str) -> Finding:
        return Finding("warning", self.name, check, text, remedy)

    def information(self, check: str, text: str, remedy: str = "") -> Finding:
        return Finding("information", self.name, check, text, remedy)

    def absent(self, right: str, check: str, text: str, remedy: str) -> Finding:
        """Report that something is missing: an error, or a warning if the login may not see it."""
        if self.sees(right):
            return self.error(check, text, remedy)
        needed = RIGHTS[right]
        return self.warning(
            check, f"{text}, or the login cannot see it without {needed}", f"GRANT {needed} to the login"
        )

    def unanswered(self) -> Iterator[Finding]:
        """Report each query that failed, so that no finding means no problem."""
        remedy = "grant the rights that the doctor needs with sql/server/minimal_rights.sql"
        for question, reason in self.failures.items():
            yield self.warning(question, f"not examined: {reason}", remedy)


def read(instance: Instance, local_name: str, connection: Connection) -> Facts:
    """Run all queries. One that fails is recorded, and the others still run."""
    facts = Facts(instance, local_name)
    for question in QUESTIONS:
        _ask(facts, connection, question)
    if facts.major_version >= _LOG_AND_HOST_INFO_SINCE:
        for question in ("fingerprint_log", "fingerprint_service", HOST, TRACE_FLAGS):
            _ask(facts, connection, question, folder="observe")
    if facts.major_version >= _ACCELERATED_RECOVERY_SINCE:
        _ask(facts, connection, "accelerated_recovery")
    _ask_of_volumes(facts, connection)
    return facts


def read_files(instance: Instance, local_name: str, connection: Connection) -> Facts:
    """Run only the queries about files and their room."""
    facts = Facts(instance, local_name)
    for question in ABOUT_FILES:
        _ask(facts, connection, question)
    _ask_of_volumes(facts, connection)
    return facts


def _ask_of_volumes(facts: Facts, connection: Connection) -> None:
    volumes: list[dict[str, Any]] = []
    for file in facts.rows("files"):
        _ask(facts, connection, "volume", FileId=str(file["file_id"]))
        volumes += [{"file_id": file["file_id"], **row} for row in facts.answers.pop("volume", [])]
    facts.answers["volumes"] = volumes


def _ask(facts: Facts, connection: Connection, question: str, *, folder: str = "doctor", **variables: str) -> None:
    try:
        facts.answers[question] = scripts.rows(
            connection, f"{folder}/{question}.sql", facts.instance.variables | variables
        )
    except MachineFailure as error:
        facts.failures[question] = str(error)
    if facts.failures:
        facts.instance.check()


class UnfitLab(MachineFailure):
    """The lab has errors, so no run is possible. Names the first, its remedy and how many more there are."""


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity: errors, warnings, information; otherwise keep the order."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def raise_errors(findings: Sequence[Finding]) -> None:
    """Raise UnfitLab if there is an error among the findings."""
    errors = [finding for finding in findings if finding.severity == "error"]
    if not errors:
        return
    first = errors[0]
    more = f" ({len(errors) - 1} more: harness doctor)" if len(errors) > 1 else ""
    raise UnfitLab(f"{first.instance}, {first.check}: {first.text}; remedy: {first.remedy}{more}")
