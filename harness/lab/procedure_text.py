"""What the text of an activation procedure says of how it receives, and of its errors. It is read, not compiled."""

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
_CATCH = re.compile(r"\bBEGIN\s+CATCH\b(.*?)\bEND\s+CATCH\b", re.DOTALL | re.IGNORECASE)
_ROLLS_BACK = re.compile(r"\bROLLBACK\b", re.IGNORECASE)
_SAYS_IT = re.compile(r"\b(THROW|RAISERROR|PRINT|ERROR_MESSAGE|ERROR_NUMBER|EXEC|EXECUTE)\b", re.IGNORECASE)
HIDES_ERRORS = "its CATCH rolls back and says nothing of the error: write ERROR_MESSAGE() to the log there"


def hides_errors(text: str) -> bool:
    """Return whether a CATCH of a procedure rolls back, neither raises the error nor reads it, and calls nothing."""
    blocks = _CATCH.findall(_IGNORED.sub(" ", text))
    return any(_ROLLS_BACK.search(block) and not _SAYS_IT.search(block) for block in blocks)


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
