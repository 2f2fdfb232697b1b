"""The body of an event notification, QUEUE_ACTIVATION.

    <EVENT_INSTANCE><EventType>QUEUE_ACTIVATION</EventType><PostTime>2016-09-08T10:01:06.363</PostTime><SPID>30</SPID>
    <ServerName>SRV</ServerName><LoginName>sa</LoginName><UserName>dbo</UserName><DatabaseName>db</DatabaseName>
    <SchemaName>dbo</SchemaName><ObjectName>queue</ObjectName><ObjectType>QUEUE</ObjectType></EVENT_INSTANCE>

Whoever may send to the service chooses the text. Therefore it has a longest length, and a DOCTYPE is refused: without
one there are neither entities that grow nor files to fetch.
"""

from dataclasses import dataclass
from xml.parsers import expat

BYTES_MAX = 64 * 1024
_NEEDED = ("EventType", "PostTime", "DatabaseName", "SchemaName", "ObjectName")


class NotAnEvent(Exception):
    """Why a body is no event that the activator understands."""


@dataclass(frozen=True)
class Activation:
    """A queue of the server that needs one more reader."""

    database: str
    queue: str  # schema.name
    posted_at: str  # local time of the server, in ms


def parse(body: bytes) -> Activation:
    """Raise NotAnEvent."""
    if len(body) > BYTES_MAX:
        raise NotAnEvent(f"it has {len(body)} bytes, more than {BYTES_MAX}")
    values: dict[str, str] = {}
    path: list[str] = []

    def start(name: str, attributes: object) -> None:
        path.append(name)
        if len(path) == 2:
            values[name] = ""

    def end(name: str) -> None:
        path.pop()

    def text(data: str) -> None:
        if len(path) == 2:
            values[path[1]] += data

    def refuse(*_: object) -> None:
        raise NotAnEvent("it has a DOCTYPE")

    parser = expat.ParserCreate("utf-8")  # whatever the text declares
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = start, end, text
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(_decoded(body).encode(), True)
    except (expat.ExpatError, UnicodeError) as error:
        raise NotAnEvent(f"it is not XML: {error}") from None
    if missing := [name for name in _NEEDED if name not in values]:
        raise NotAnEvent(f"it has no {missing[0]}")
    if values["EventType"] != "QUEUE_ACTIVATION":
        raise NotAnEvent(f"its event is {values['EventType'][:100]!r}")
    return Activation(values["DatabaseName"], f"{values['SchemaName']}.{values['ObjectName']}", values["PostTime"])


def _decoded(body: bytes) -> str:
    """The text of xml, which begins with a byte order mark, of nvarchar or of UTF-8."""
    if body[:2] == b"\xff\xfe":
        return body[2:].decode("utf-16-le")
    return body.decode("utf-16-le" if body[1:2] == b"\0" else "utf-8")
