"""Ask one server with the scripts of `sql/monitors`, and remember what it refuses and what its answers cost it.

Every statement only reads. A session is in a database no longer than a batch, so that nobody is kept from dropping it.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.files.script_text import ScriptError, quoted
from harness.lab import interruption, scripts
from harness.lab.drivers import Connection
from harness.lab.instances import Instance

QUERY_TIMEOUT_S = 10
_SETTINGS = "SET LOCK_TIMEOUT 2000; SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;"
# The first result set keeps the message of USE, "Changed database context", apart from errors of what follows.
_BEGIN = "DECLARE @begun datetime2 = SYSDATETIME(); SELECT DB_ID() AS database_id;"
_END = "SELECT DATEDIFF(MICROSECOND, @begun, SYSDATETIME()) AS spent_us;"
# The database does not exist, or the login may not use it, or it is not online, or another replica is the one to ask.
_NO_DATABASE = frozenset({911, 916, 924, 927, 942, 945, 952, 954, 976, 978, 983})
_LOCK_TIMEOUT = 1222
NO_USER = 916  # the login may not use the database
_ERROR = re.compile(r"\(error (\d+)\)")
_SENTENCE = re.compile(r"[^:]*: (.*?\(error \d+\))")  # behind the place, before a remedy
_LISTED = 3  # places that a refusal names

_MAY_BE_DEAR = "monitors/conversations"  # of a server that answers all else
_TIMED_OUT = "HYT00"

# What is not shown without a script, and the right that it needs.
_NEEDS = {
    "monitors/queue_monitors": ("states of queue monitors, and readers", "GRANT VIEW SERVER STATE TO the login"),
    "monitors/traffic": ("messages in and out per second", "GRANT VIEW DATABASE STATE TO its user"),
    "monitors/sessions": ("who receives and who has a transaction open", "GRANT VIEW SERVER STATE TO the login"),
    "monitors/messages": ("messages by status, and the oldest", "GRANT SELECT ON the queue TO its user"),
    _MAY_BE_DEAR: ("conversations by state", f"execute sql/{_MAY_BE_DEAR}.sql there at a quiet time"),
    "doctor/endpoint": ("the Service Broker endpoint", "GRANT VIEW ANY DEFINITION TO the login"),
    "observe/activation_errors": ("the error log", "GRANT VIEW ANY ERROR LOG; before 2022 add it to securityadmin"),
}

Rows = list[dict[str, Any]]


class NoDatabase(ScriptError):
    """The server has no such database any more, or the login may not use it."""


class LockTimeout(ScriptError):
    """Somebody else changes what a script reads, and has not committed it within the lock timeout."""


class Asker:
    """One connection to a server, opened again where it broke. Not for several threads."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._connection: Connection | None = None
        self._refused: dict[tuple[str, str], str] = {}  # script and place → why
        self.cost_s = 0.0  # the server's time for all answers so far, by its own clock

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            interruption.close(connection)

    def refusals(self) -> Iterator[str]:
        """Yield a line for each script that the server has refused."""
        for script in dict.fromkeys(script for script, _ in self._refused):
            places = [place for refused, place in self._refused if refused == script and place]
            view_words, remedy = _NEEDS.get(script, (script, "grant the login what it lacks"))
            if places:
                view_words += f", in {', '.join(places[:_LISTED])}"
            if len(places) > _LISTED:
                view_words += f" and {len(places) - _LISTED} more"
            reason = next(text for (refused, _), text in self._refused.items() if refused == script)
            sentence = _SENTENCE.match(reason)
            yield f"not shown: {view_words}: {sentence[1] if sentence else reason}; remedy: {remedy}"

    def ask(
        self, database: str, names: Sequence[str], variables: Mapping[str, str], *, place: str = ""
    ) -> dict[str, Rows]:
        """Run scripts in a database as one batch; return the rows of each that was not refused.

        `place` is what a refusal concerns, the database by default: it is not asked again. Raises NoDatabase,
        LockTimeout, or ScriptError where the server does not answer.
        """
        place = place or database
        answers: dict[str, Rows] = {}
        while open_ := [name for name in names if name not in answers and (name, place) not in self._refused]:
            texts = [scripts.single(f"{name}.sql", variables) for name in open_]
            sets, error = self._run(database, texts)
            answers.update(zip(open_, sets, strict=False))
            if error is None:
                break
            if database and _lacks_database(error):
                raise NoDatabase(str(error)) from error
            if error_number(error) == _LOCK_TIMEOUT:
                raise LockTimeout(str(error)) from error
            if not scripts.is_refusal(error) and not (_timed_out(error) and open_ == [_MAY_BE_DEAR]):
                raise error
            self._refused[open_[min(len(sets), len(open_) - 1)], place] = str(error)
        return answers

    def _run(self, database: str, texts: Sequence[str]) -> tuple[list[Rows], ScriptError | None]:
        """Return the result sets of the texts that succeeded, and the error of the first that did not."""
        if self._connection is None:
            self._connection = self._instance.connect("master", query_timeout_s=QUERY_TIMEOUT_S)
            scripts.execute(self._connection, _SETTINGS)
        use = f"USE {quoted(database)};" if database else ""
        batch = "\n".join((use, _BEGIN, *texts, _END, "USE [master];" if use else ""))
        begun = time.monotonic()
        try:
            sets, error = scripts.result_sets(self._connection, batch, database or self._instance.name)
            if error is None:
                self.cost_s += sets.pop()[0]["spent_us"] / 1e6
                return sets[1:], None
            if error_number(error) != _LOCK_TIMEOUT:  # to wait for a lock costs the server nothing
                self.cost_s += time.monotonic() - begun
            if not (scripts.is_refusal(error) or _lacks_database(error) or error_number(error) == _LOCK_TIMEOUT):
                self.close()
            elif use:
                scripts.execute(self._connection, "USE [master];")
        except ScriptError:
            self.close()
            raise
        return sets[1:], error


def _lacks_database(error: ScriptError) -> bool:
    return error_number(error) in _NO_DATABASE


def _timed_out(error: ScriptError) -> bool:
    cause = error.__cause__
    return cause is not None and cause.args[:1] == (_TIMED_OUT,)


def error_number(error: ScriptError) -> int | None:
    """Return the server's number of an error."""
    numbers = _ERROR.findall(str(error))
    return int(numbers[-1]) if numbers else None
