"""Whether the clients' procedure takes what clients pass: compared with its declaration, before anything is sent.

SQL Server would refuse a wrong call only when it is made, and would cut text that is too long without a word.
sys.parameters does not say which parameters of a T-SQL procedure have a default, so its text is read for that.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from uuid import UUID

from harness.failures import nearest
from harness.files.workload_file import Value, Workload, WorkloadError
from harness.lab import scripts
from harness.lab.drivers import Connection

_DECLARED = """\
SELECT p.name, ISNULL(t.name, N'other') AS type, p.max_length, p.precision, p.scale
FROM sys.parameters AS p LEFT OUTER JOIN sys.types AS t ON t.user_type_id = p.system_type_id
WHERE p.object_id = OBJECT_ID(N'{0}')
ORDER BY p.parameter_id;
"""
_TEXT = "SELECT m.definition FROM sys.sql_modules AS m WHERE m.object_id = OBJECT_ID(N'{0}');"
_COMMENT = re.compile(r"/\*.*?\*/|--[^\n]*", re.DOTALL)
# Behind a parameter's name in the text of its procedure: its type, and what stands before the default.
_UP_TO_DEFAULT = r"\s+(?:AS\s+)?[\w.\[\]\" ]+?(?:\s*\([\w\s,]*\))?(?:\s+VARYING)?(?:\s+(?:NOT\s+)?NULL)?\s*="
_INTEGERS = {"tinyint": (8, 0), "smallint": (15, 1), "int": (31, 1), "bigint": (63, 1)}  # bits and a sign
_CHARACTERS = ("nchar", "nvarchar", "char", "varchar")
_DAY, _TIME = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d:\d\d"
# What SQL Server reads in any language: pattern and an example. Python then looks whether there is such a day.
_MOMENTS: dict[str, tuple[str, Callable[[str], object], str]] = {
    "date": (_DAY, date.fromisoformat, "2026-11-23"),
    "time": (rf"{_TIME}(\.\d{{1,7}})?", time.fromisoformat, "10:00:00"),
    "datetime": (rf"{_DAY}T{_TIME}(\.\d{{1,3}})?", datetime.fromisoformat, "2026-11-23T10:00:00"),
    "smalldatetime": (rf"{_DAY}T{_TIME}", datetime.fromisoformat, "2026-11-23T10:00:00"),
    "datetime2": (rf"{_DAY}T{_TIME}(\.\d{{1,7}})?", datetime.fromisoformat, "2026-11-23T10:00:00"),
    "datetimeoffset": (
        rf"{_DAY}T{_TIME}(\.\d{{1,7}})?(Z|[+-]\d\d:\d\d)",
        datetime.fromisoformat,
        "2026-11-23T10:00:00+01:00",
    ),
}


@dataclass(frozen=True, slots=True)
class Declared:
    """A parameter as its procedure declares it."""

    name: str  # with its @
    type: str  # of the system; "other" for a table type or a type of .NET
    max_length: int  # bytes; -1: max
    precision: int
    scale: int
    has_default: bool  # also where nobody may read the procedure's text

    def __str__(self) -> str:
        return f"{self.name} {self.type}{self._size}"

    @property
    def _size(self) -> str:
        if self.type in ("decimal", "numeric"):
            return f"({self.precision}, {self.scale})"
        if self.type in (*_CHARACTERS, "varbinary", "binary"):
            return "(max)" if self.max_length < 0 else f"({self.characters})"
        return ""

    @property
    def characters(self) -> int:
        """How many it holds, or bytes of binary."""
        return self.max_length // 2 if self.type.startswith("n") else self.max_length

    def misfit(self, value: Value) -> str:
        """What is wrong with a value for it; "" if nothing is."""
        if self.type not in _FITS:
            return "no value can be given for this type: call the procedure by one in a script"
        if _FITS[self.type](self, value):
            return ""
        example = f', as in "{_MOMENTS[self.type][2]}"' if self.type in _MOMENTS else ""
        return f"{value!r} does not fit{example}"


def _fits_integer(declared: Declared, value: Value) -> bool:
    bits, sign = _INTEGERS[declared.type]
    return type(value) is int and -sign << bits <= value < 1 << bits


def _fits_decimal(declared: Declared, value: Value) -> bool:
    """Whether the value is kept exactly."""
    if not _is_number(declared, value):
        return False
    number = Decimal(str(value)).normalize()
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), value  # neither infinite nor no number
    return -exponent <= declared.scale and abs(number) < Decimal(10) ** (declared.precision - declared.scale)


def _is_number(declared: Declared, value: Value) -> bool:
    return type(value) in (int, float)


def _fits_text(declared: Declared, value: Value) -> bool:
    if not isinstance(value, str):
        return False
    return declared.max_length < 0 or len(value.encode("utf-16-le")) // 2 <= declared.characters


def _fits_moment(declared: Declared, value: Value) -> bool:
    pattern, read, _ = _MOMENTS[declared.type]
    return isinstance(value, str) and re.fullmatch(pattern, value) is not None and _is_read(read, value)


# By type, whether a value of a workload.toml can be passed for it, without loss.
_FITS: dict[str, Callable[[Declared, Value], bool]] = {
    **dict.fromkeys(_INTEGERS, _fits_integer),
    **dict.fromkeys(("decimal", "numeric", "money", "smallmoney"), _fits_decimal),
    **dict.fromkeys(("float", "real"), _is_number),
    **dict.fromkeys(_CHARACTERS, _fits_text),
    **dict.fromkeys(_MOMENTS, _fits_moment),
    "bit": lambda one, value: value in (0, 1),  # as are false and true
    "uniqueidentifier": lambda one, value: isinstance(value, str) and len(value) == 36 and _is_read(UUID, value),
    "xml": lambda one, value: isinstance(value, str),
}


def declared(connection: Connection, procedure: str) -> list[Declared] | None:
    """The parameters of a procedure of the connection's database in their order; None if there is no such procedure."""
    if scripts.scalar(connection, f"SELECT OBJECT_ID(N'{procedure}', N'P');") is None:
        return None
    with connection.cursor() as cursor:
        rows = cursor.execute(_DECLARED.format(procedure)).fetchall()
    [text, *_] = [*scripts.values(connection, _TEXT.format(procedure)), None]
    return [
        Declared(name, type_, length, precision, scale, text is None or _has_default(text, name))
        for name, type_, length, precision, scale in rows
    ]


def _has_default(text: str, name: str) -> bool:
    """Whether the text of a procedure gives a default to a parameter: there its name stands first."""
    text = _COMMENT.sub(" ", text)
    match = re.search(rf"{re.escape(name)}(?![\w@#$])", text, re.IGNORECASE)
    return match is not None and re.match(_UP_TO_DEFAULT, text[match.end() :], re.IGNORECASE) is not None


def check(workload: Workload, takes: Sequence[Declared]) -> None:
    """Raise WorkloadError unless clients pass what the procedure takes."""
    client, by_name = workload.client, {take.name[1:].lower(): take for take in takes}
    for name, value in client.values.items():
        where = workload.where("client", "values", name)
        one = by_name.get(name.lower())
        if one is None:
            valid = nearest(f"@{name}", [parameter.name for parameter in takes])
            raise WorkloadError(f"{where}: {client.procedure} has no parameter @{name}{valid}")
        if misfit := one.misfit(value):
            raise WorkloadError(f"{where}: {client.procedure} takes {one}: {misfit}")
    if len(client.parameters) > len(takes) or not all(
        one.name[1:].lower() == name.lower() if name in client.values else one.type in workload.types_of(name)
        for name, one in zip(client.parameters, takes, strict=False)
    ):
        passes = ", ".join(
            f"@{name}" if name in client.values else f"{name} {' or '.join(workload.types_of(name))}"
            for name in client.parameters
        )
        text = f"{client.procedure} takes {', '.join(map(str, takes)) or 'nothing'}, and clients pass {passes}"
        order_words = ": name them in this order, and give each further one a value under [client.values]"
        has_others = len(takes) > len(client.parameters)
        raise WorkloadError(f"{workload.where('client', 'parameters')}: {text}{order_words if has_others else ''}")
    for one in takes[len(client.parameters) :]:
        if not one.has_default:
            text = f"{client.procedure} also takes {one}, which has no default: name it under client.parameters, and"
            raise WorkloadError(f"{workload.where('client', 'parameters')}: {text} its value under [client.values]")


def _is_read(read: Callable[[str], object], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True
