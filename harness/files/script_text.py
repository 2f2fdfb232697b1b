"""The text of files for sqlcmd, such as those of `sql/`: `GO` ends a batch (`GO 5` repeats it), `$(Name)` is a value.

`GO` is on a line of its own, outside comments, strings and quoted names. `$(Name)` may be anywhere but in comments; its
name is not case sensitive, and a variable without a value is an error.

sqlcmd inserts a value as it is, which lets a value end the string that it stands in. Here it cannot: where it stands in
a string or in a quoted name, the closing quotes in it are doubled. A string that is itself executed, by `EXECUTE (...)`
or sp_executesql, is substituted as the script that it is. Anywhere else a value must be `_PLAIN`, such as a number or a
name. So each value adds exactly one token, or a part of one, and where it has no quotes sqlcmd sends the same batch.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.failures import MachineFailure

VARIABLE = re.compile(r"\$\(([A-Za-z_][\w-]*)\)")
_TOKEN = re.compile(
    r"(?P<comment>--[^\n]*|/\*)"
    r"|(?P<quoted>'(?:[^']|'')*+'|\"(?:[^\"]|\"\")*+\"|\[(?:[^\]]|\]\])*+\])"
    r"|(?P<go>^[^\S\n]*GO(?:[^\S\n]+(?P<count>\d+))?[^\S\n]*(?:--[^\n]*)?$)"
    rf"|(?P<variable>{VARIABLE.pattern})"
    r"|(?P<execute>\bEXEC(?:UTE)?\s*\(|\bsp_executesql\b)|(?P<end>[;,)])",
    re.IGNORECASE | re.MULTILINE,
)
_COMMENT_SIGN = re.compile(r"/\*|\*/")
_NAME = r"(?:[^\W\d]\w*|\[(?:[^\]]|\]\])+\])"
_PLAIN = re.compile(
    rf"-?\d+(?:\.\d+)?|0x[0-9A-F]*|{_NAME}(?:\.{_NAME})*"
    r"|\(\d+(?:\.\d+){3}\)|\('[0-9A-F:.]+'\)"  # LISTENER_IP
    r"|'[0-9A-F-]{36}'(?:, '[0-9A-F-]{36}')*"  # ids of conversations
    r"|REQUIRED ALGORITHM AES|MESSAGE TYPE|REMOTE SERVICE BINDING",
    re.IGNORECASE,
)


class ScriptError(MachineFailure):
    """A script failed. The message says which file, which line and why."""


class ScriptRefused(ScriptError):
    """A script failed for what it says: repeated at once, it failed the same way."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Text that is sent to the server at once. `line` is its first line in the file, `count` how often it runs."""

    text: str
    line: int
    count: int = 1


def split(text: str) -> list[Batch]:
    """Split a script into batches. Like sqlcmd, leave out batches of white space only."""
    batches: list[Batch] = []
    begin = 0
    for go in [*(token for token in _tokens(text) if token["go"] is not None), None]:
        batch = text[begin : go.start() if go else len(text)].removesuffix("\n")
        count = int(go["count"] or 1) if go else 1
        if count and batch.strip():
            batches.append(Batch(batch, text.count("\n", 0, begin) + 1, count))
        begin = go.end() + 1 if go else 0
    return batches


def substitute(text: str, variables: Mapping[str, str], *, origin: str = "script", line: int = 1) -> str:
    """Replace each `$(Name)` by its value; `line` is the text's first line in its file.

    Raises ScriptError for a name without a value, and ScriptRefused for a value that does not suit its place.
    """
    values = {name.lower(): value for name, value in variables.items()}

    def line_at(place: int) -> int:
        return line + text.count("\n", 0, place)

    def value(match: re.Match[str], quote: str) -> str:
        value_given = values.get(match[1].lower())
        if value_given is None:
            raise ScriptError(f"{origin}, line {line_at(match.start())}: the variable {match[0]} has no value")
        if quote:
            return value_given.replace(quote, 2 * quote)
        if _PLAIN.fullmatch(value_given) is None:
            must = f"write a number or a name, or {match[0]} between apostrophes or brackets"
            raise ScriptRefused(f"{origin}, line {line_at(match.start())}: {match[0]} is {value_given!r}: {must}")
        return f" {value_given}" if value_given.startswith("-") else value_given  # else it could begin a comment

    pieces: list[str] = []
    end = 0
    is_executed = False
    for token in _tokens(text):
        is_executed = token["end"] is None and (is_executed or token["execute"] is not None)
        quoted = token["quoted"] or ""
        if is_executed and quoted[:1] == "'":
            script = substitute(quoted[1:-1].replace("''", "'"), variables, origin=origin, line=line_at(token.start()))
            pieces += text[end : token.start() + 1], script.replace("'", "''")
            end = token.end() - 1
        elif quoted or token["variable"]:
            for found in VARIABLE.finditer(text, *token.span()):
                pieces += text[end : found.start()], value(found, quoted[-1:])
                end = found.end()
    return "".join((*pieces, text[end:]))


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield what `_TOKEN` finds outside comments."""
    place = 0
    while token := _TOKEN.search(text, place):
        place = token.end()
        if token["comment"] is None:
            yield token
        depth = int(token["comment"] == "/*")  # such comments lie in each other
        while depth:
            sign = _COMMENT_SIGN.search(text, place)
            if sign is None:
                return
            place, depth = sign.end(), depth + (1 if sign[0] == "/*" else -1)


def quoted(name: str) -> str:
    """[name], as T-SQL takes it"""
    return substitute("[$(Name)]", {"Name": name})


def literal(text: str) -> str:
    """N'text', as T-SQL takes it"""
    return substitute("N'$(Text)'", {"Text": text})
