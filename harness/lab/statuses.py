"""What a transmission_status says: SQL Server's message of that text, its cause and what to do, from `statuses.tsv`.

A status shows the text of a message without its number. Many texts quote another one that is the cause: 28005 an error
of the target's database, 9754 one of the operating system. The innermost that the table knows is the one to act upon.
The texts are those of sys.messages, with its parameters; the rows `OS` are errors of Windows and Linux.
https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
"""

import csv
import functools
import re
from importlib.resources import files
from typing import NamedTuple

from harness.files.script_text import literal, quoted

_PARAMETER = re.compile(r"%(?:S_MSG|#?\.?\*?(?:I64|l|h)*[sdiuxX])")
_OF_SYSTEM = re.compile(r"(\d+)\(")


class Message(NamedTuple):
    """A row of the table. In reason and remedy {1}, {2} ... are the parameters of the text."""

    number: str  # of sys.messages, or `OS 10061`
    text: str
    reason: str
    remedy: str
    rehearsed: str  # the test that makes the trouble and executes the remedy; `no` where the embedded server cannot

    @property
    def pattern(self) -> re.Pattern[str]:
        fixed = map(re.escape, _PARAMETER.split(self.text.removesuffix(".")))
        return re.compile(rf"\s*{'(.*?)'.join(fixed)}\.?\s*", re.DOTALL)

    @property
    def fixed_length(self) -> int:
        return len(_PARAMETER.sub("", self.text))


class Understood(NamedTuple):
    """A message in a status, with its parameters."""

    message: Message
    parameters: tuple[str, ...]

    @property
    def reason(self) -> str:
        return self.message.reason.format("", *self.parameters)

    def remedy(self, **names: str) -> str:
        """Return what to do. Parameters stand in brackets there."""
        return self.message.remedy.format("", *(value.replace("]", "]]") for value in self.parameters), **names)


def enable(database: str) -> str:
    return f"ALTER DATABASE {quoted(database)} SET ENABLE_BROKER WITH ROLLBACK IMMEDIATE;"


def names(database: str, service: str) -> dict[str, str]:
    """Return what stands in remedies beside the parameters of a status: the sender's database, and the service that
    it sends to."""
    of_service = {"to_service": service, "service": literal(service), "name": quoted(service)}
    return {"database": quoted(database), "enable": enable(database), **of_service}


@functools.cache
def table() -> dict[str, Message]:
    """Return the messages by number."""
    text = (files("harness.lab") / "statuses.tsv").read_text(encoding="utf-8")
    rows = csv.reader(text.splitlines()[1:], delimiter="\t", quoting=csv.QUOTE_NONE)
    return {row[0]: Message(*row) for row in rows}


@functools.cache
def _by_length() -> list[tuple[re.Pattern[str], Message]]:
    """Return the patterns of texts, those first that say most: `Connection handshake failed. ...` has many."""
    messages = [message for message in table().values() if not message.number.startswith("OS")]
    return [(message.pattern, message) for message in sorted(messages, key=lambda message: -message.fixed_length)]


def understand(status: str) -> Understood | None:
    """Return the message that is to blame: the innermost one that the table knows, or None."""
    for pattern, message in _by_length():
        if match := pattern.fullmatch(status):
            parameters = match.groups()
            return next(filter(None, map(_quoted, reversed(parameters))), Understood(message, parameters))
    return None


def _quoted(parameter: str) -> Understood | None:
    """Return the message that a parameter is: a text, or an error of the system as `10061(...)`."""
    if of_system := _OF_SYSTEM.match(parameter):
        message = table().get(f"OS {of_system[1]}")
        return message and Understood(message, ())
    return understand(parameter) if " " in parameter else None
