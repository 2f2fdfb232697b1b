"""What the text of an activation procedure says of how it receives: hints, because the text is read, not compiled."""

from __future__ import annotations

import re

_IGNORED = re.compile(r"--[^\n]*|/\*.*?\*/|'(?:[^']|'')*'", re.DOTALL)
_NAME = r"(?:\[(?:[^\]]|\]\])*\]|\"[^\"]*\"|[\w@#$]+)"
_NEXT = r"(?=[;)]|\b(?:RECEIVE|SELECT|IF|SET|BEGIN|END|COMMIT|INSERT|UPDATE|DELETE|DECLARE|EXEC|EXECUTE|BREAK)\b|$)"
_RECEIVE = re.compile(
    rf"\bRECEIVE\b(?P<columns>.*?)\bFROM\s+(?:{_NAME}\s*\.\s*)*(?P<queue>{_NAME})(?P<rest>.*?){_NEXT}"
    r"(?:\)\s*,\s*TIMEOUT\s+(?P<timeout_ms>\d+))?",
    re.DOTALL | re.IGNORECASE,
)
_TOP_1 = re.compile(r"\s*TOP\s*\(\s*1\s*\)", re.IGNORECASE)
_ENDS_AT_ONCE_MS = 100


def hints(text: str, queue: str) -> list[str]:
    """Return what is slow in the RECEIVE statements of a procedure for a queue."""
    slow: dict[str, None] = {}
    for receive in _RECEIVE.finditer(_IGNORED.sub(" ", text)):
        if receive["queue"].strip('[]"').lower() != queue.lower():
            continue
        if _TOP_1.match(receive["columns"]):
            slow[
                "its RECEIVE has TOP (1): each message takes a statement, where one could take all of a conversation"
            ] = None
        if re.search(r"\bWHERE\b", receive["rest"], re.IGNORECASE):
            slow["its RECEIVE has WHERE: it takes the messages of one conversation or group alone"] = None
        if receive["timeout_ms"] and int(receive["timeout_ms"]) <= _ENDS_AT_ONCE_MS:
            slow[f"its WAITFOR ends after {receive['timeout_ms']} ms: the procedure is launched again and again"] = None
    return list(slow)
