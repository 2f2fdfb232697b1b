"""What clients pass, against the declaration of their procedure."""

from pathlib import Path

import pytest

from harness.failures import UsageFailure
from harness.files import workload_file
from harness.files.workload_file import Value
from harness.lab.client_procedure import Declared, check, declared
from harness.simulation import parameters, simulated_lab

PROCEDURE = """\
CREATE PROCEDURE dbo.Send -- @region = 'a comment'
    @handle AS uniqueidentifier,
    @region nvarchar(10) /* = N'' */,
    @body varbinary(max),
    @amount decimal(9, 2) = 0,
    @note nvarchar(max)= N'@amount, @other = 1',
    @other int,
    @last [varchar](3) = NULL OUTPUT
AS
BEGIN
    SET @other = 1;
END;
"""


def test_a_declaration_says_which_parameters_have_a_default() -> None:
    lab = simulated_lab.open(parameters.read("paper"), version="2022", initiators=1, seed=1)
    with lab.target.connect("master") as connection:
        connection.cursor().execute(PROCEDURE)
        found = declared(connection, "dbo.Send")
        assert declared(connection, "dbo.Sent") is None
    assert found is not None
    assert [str(one) for one in found] == [
        "@handle uniqueidentifier",
        "@region nvarchar(10)",
        "@body varbinary(max)",
        "@amount decimal(9, 2)",
        "@note nvarchar(max)",
        "@other int",
        "@last varchar(3)",
    ]
    assert [one.has_default for one in found] == [False, False, False, True, True, False, True]


def a(type_: str, *, max_length: int = 0, precision: int = 0, scale: int = 0, has_default: bool = False) -> Declared:
    return Declared("@it", type_, max_length, precision, scale, has_default)


FITTING: list[tuple[Declared, list[Value], list[Value]]] = [
    (a("tinyint"), [0, 255], [-1, 256, 1.0, True, "1"]),
    (a("bigint"), [-(2**63), 2**63 - 1], [2**63, -(2**63) - 1]),
    (a("bit"), [True, False, 0, 1], [2, "true"]),
    (a("decimal", precision=5, scale=2), [999.99, -12, 0, 0.5], [1000, 0.005, "1", True]),
    (a("money", precision=19, scale=4), [12.3456], [12.34567, "12"]),
    (a("float"), [1, 1e300], ["1", True]),
    (a("nvarchar", max_length=6), ["", "abc", "ü😀"], ["abcd", "😀😀", 1]),
    (a("char", max_length=3), ["abc"], ["abcd"]),
    (a("nvarchar", max_length=-1), ["x" * 4000], [True]),
    (a("xml", max_length=-1), ["<a/>"], [1]),
    (
        a("uniqueidentifier"),
        ["0A0b0c0d-0000-0000-0000-000000000001"],
        ["0a0b0c0d", "0a0b0c0d00000000000000000000000001"],
    ),
    (a("date"), ["2026-02-28"], ["2026-02-29", "20260228", 20260228]),
    (a("time"), ["10:00:00", "10:00:00.1234567"], ["25:00:00", "10:00"]),
    (a("datetime"), ["2026-11-23T10:00:00.123"], ["2026-11-23", "2026-11-23T10:00:00.1234", "2026-11-23 10:00:00"]),
    (a("smalldatetime"), ["2026-11-23T10:00:00"], ["2026-11-23T10:00:00.5"]),
    (a("datetime2"), ["2026-11-23T10:00:00.1234567"], ["2026-11-23T10:00:00Z"]),
    (a("datetimeoffset"), ["2026-11-23T10:00:00+01:00", "2026-11-23T10:00:00Z"], ["2026-11-23T10:00:00"]),
    (a("varbinary", max_length=-1), [], ["0x00", 1]),
    (a("other"), [], ["x"]),
]


@pytest.mark.parametrize(
    "one, fit, others", FITTING, ids=lambda value: str(value) if isinstance(value, Declared) else ""
)
def test_a_value_fits_that_the_type_keeps_as_it_is(one: Declared, fit: list[Value], others: list[Value]) -> None:
    assert [value for value in fit if one.misfit(value)] == []
    assert [value for value in others if not one.misfit(value)] == []


TAKES = (
    Declared("@handle", "uniqueidentifier", 16, 0, 0, False),
    Declared("@Region", "nvarchar", 20, 0, 0, False),
    Declared("@body", "varbinary", -1, 0, 0, False),
    Declared("@Urgent", "bit", 1, 1, 0, True),
)
ALL = "dbo.Send takes @handle uniqueidentifier, @Region nvarchar(10), @body varbinary(max), @Urgent bit"
CALLS = [
    ('["handle", "Region", "body"]', 'Region = "north"', ""),
    ('["handle", "region", "body", "Urgent"]', 'region = "north"\nUrgent = true', ""),
    (
        '["handle", "Regin", "body"]',
        'Regin = "north"',
        "line 5: dbo.Send has no parameter @Regin; nearest: @Region, @Urgent",
    ),
    (
        '["handle", "Region", "body"]',
        'Region = "north and south"',
        "line 5: dbo.Send takes @Region nvarchar(10): 'north and south' does not fit",
    ),
    (
        '["handle", "body", "Region"]',
        'Region = "north"',
        f"line 3: {ALL}, and clients pass handle uniqueidentifier, body varbinary, @Region: name them in this order, and "
        "give each further one a value under [client.values]",
    ),
    (
        '["handle", "body"]',
        "",
        f"line 3: {ALL}, and clients pass handle uniqueidentifier, body varbinary: name them in this order, and give "
        "each further one a value under [client.values]",
    ),
    (
        '["handle", "Region", "body", "Urgent", "thread"]',
        'Region = "north"\nUrgent = true',
        f"line 3: {ALL}, and clients pass handle uniqueidentifier, @Region, body varbinary, @Urgent, thread int",
    ),
]


@pytest.mark.parametrize("names, values, words", CALLS)
def test_clients_pass_what_the_procedure_declares(tmp_path: Path, names: str, values: str, words: str) -> None:
    (tmp_path / "workload.toml").write_text(
        f'[client]\nprocedure = "dbo.Send"\nparameters = {names}\n[client.values]\n{values}\n'
        '[target]\nactivation_procedure = "dbo.Receive"\n'
    )
    workload = workload_file.read(str(tmp_path))
    if not words:
        return check(workload, TAKES)
    with pytest.raises(UsageFailure) as raised:
        check(workload, TAKES)
    assert str(raised.value) == f"workload.toml, {words}"


def test_a_parameter_that_is_left_out_needs_a_default(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(
        '[client]\nprocedure = "dbo.Send"\n[target]\nactivation_procedure = "dbo.Receive"\n'
    )
    workload = workload_file.read(str(tmp_path))
    takes = [TAKES[0], TAKES[2], TAKES[3]]
    check(workload, takes)
    with pytest.raises(UsageFailure) as raised:
        check(workload, [*takes[:2], Declared("@Amount", "int", 4, 10, 0, False)])
    assert str(raised.value) == (
        "workload.toml, line 1: dbo.Send also takes @Amount int, which has no default: name it under client.parameters, "
        "and its value under [client.values]"
    )
