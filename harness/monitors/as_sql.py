"""The questions of `harness monitors` as T-SQL, for SSMS and sqlcmd, where the harness may not be installed."""

from harness.files.script_text import quoted
from harness.lab import scripts
from harness.monitors.reading import LIMIT

_SCRIPTS = (
    *("monitors/databases", "monitors/queue_monitors", "doctor/endpoint", "monitors/queues", "monitors/services"),
    *("doctor/routes", "monitors/depths", "monitors/traffic", "monitors/conversations", "monitors/transmission"),
    *("monitors/sessions", "monitors/certificates"),
)


def lines(database: str | None) -> list[str]:
    """Return all questions about a server and one of its databases: that of the connection, or `database`."""
    use = [f"USE {quoted(database)};"] if database else []
    questions = [scripts.single(f"{path}.sql", {"Limit": str(LIMIT)}).strip() for path in _SCRIPTS]
    return "\nGO\n".join(["-- What harness monitors asks. It only reads.", *use, *questions, ""]).splitlines()
