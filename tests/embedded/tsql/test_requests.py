"""Calls by drivers: procedures by RPC, sp_executesql, prepared statements. Activated procedures: their session, their
output, and how they fail."""

import gc
import weakref

import pytest

from harness.embedded.sqltypes import INT, MAX, Parameter, SqlType
from harness.embedded.tsql.requests import ClientSession
from harness.embedded.tsql.session import handles
from harness.embedded.tsql.statements import procedures
from tests.embedded.tsql.sides import Message, World

NVARCHAR_MAX = SqlType("nvarchar", length=MAX)


def text(value):
    return Parameter("", NVARCHAR_MAX, value, False)


def handle():
    return Parameter("@handle", INT, None, True)


@pytest.fixture
def procedure(side):
    side.run(
        "CREATE PROCEDURE dbo.p @a int, @b nvarchar(5) = N'b', @c bigint = 0 OUTPUT AS SET NOCOUNT ON; INSERT dbo.t (n, name) VALUES (@a, @b); SET @c = @a * 2; RETURN 3"
    )
    return side


def test_a_procedure_by_rpc_returns_status_and_output_parameters(procedure):
    output = Parameter("@c", INT, None, True)
    results = procedure.rpc(
        "dbo.p", [Parameter("", INT, 7, False), Parameter("@B", SqlType("varchar", length=3), "x", False), output]
    )
    assert (results.status, results.values) == (3, {"@c": 14})
    assert procedure.rows("SELECT n, name FROM dbo.t") == [(7, "x")]
    for name in ("p", "[dbo].[p]", "db.dbo.p", "db..p", "[p];1"):
        assert procedure.call(name, 1).status == 3


def test_a_pool_resets_a_connection_by_a_call(procedure):
    procedure.run("SET XACT_ABORT ON; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; USE master; BEGIN TRANSACTION")
    assert procedure.call("sys.sp_reset_connection").status == 0
    session = procedure.session
    assert (session.tx, session.tran_count, session.options.isolation_level) == (None, 0, 2)
    assert procedure.error("EXEC sp_reset_connection").number == 2812  # only an RPC finds it


def test_the_oldest_shapes_of_calls_are_dropped(procedure, monkeypatch):
    monkeypatch.setattr(procedures, "BOUND_KEPT", 2)
    for length in (1, 2, 3, 1):
        procedure.rpc(
            "dbo.p",
            [Parameter("", INT, length, False), Parameter("", SqlType("varchar", length=length), "x" * length, False)],
        )
    kept = procedure.instance.procedure(("dbo", "p"), procedure.session.database).bound
    assert [shapes[1][1].length for shapes in kept] == [3, 1]
    assert procedure.rows("SELECT n, name FROM dbo.t") == [(1, "x"), (2, "xx"), (3, "xxx"), (1, "x")]


def test_an_unknown_procedure_or_parameter_is_an_error(procedure):
    for name, values, number in (("dbo.q", (), 2812), ("dbo.p", (), 201), ("dbo.p", (1, "a", 2, 3), 8144)):
        with pytest.raises(Message) as caught:
            procedure.call(name, *values)
        assert caught.value.number == number


def test_sp_executesql_takes_values_by_position_and_name(side):
    results = side.rpc(
        "sp_executesql",
        [
            text("SELECT @a + 1, @b"),
            text("@a int, @b nvarchar(10)"),
            Parameter("@a", INT, 4, False),
            Parameter("@b", NVARCHAR_MAX, "x", False),
        ],
    )
    assert results.sets[0][1] == [(5, "x")]
    assert side.rpc("sp_executesql", [text("SELECT 1")]).sets[0][1] == [(1,)]
    results = side.rpc("sp_executesql", [text("SET @o = 6"), text("@o int OUTPUT"), Parameter("@o", INT, None, True)])
    assert results.values == {"@o": 6}
    with pytest.raises(Message, match="8178"):
        side.rpc("sp_executesql", [text("SELECT @a"), text("@a int")])


def test_prepared_statements_live_until_they_are_unprepared(side):
    parameters = [handle(), text("@P1 int"), text("SELECT @P1 * 2")]
    results = side.rpc("sp_prepexec", [*parameters, Parameter("", INT, 4, False)])
    assert results.sets[0][1] == [(8,)]
    number = results.values["@handle"]
    assert side.rpc("sp_execute", [Parameter("", INT, number, False), Parameter("", INT, 5, False)]).sets[0][1] == [
        (10,)
    ]
    side.rpc("sp_unprepare", [Parameter("", INT, number, False)])
    with pytest.raises(Message, match="8179"):
        side.rpc("sp_execute", [Parameter("", INT, number, False), Parameter("", INT, 5, False)])
    number = side.rpc("sp_prepare", parameters).values["@handle"]
    assert side.rpc("sp_execute", [Parameter("", INT, number, False), Parameter("", INT, 6, False)]).sets[0][1] == [
        (12,)
    ]


def test_a_prepared_call_follows_a_procedure_that_is_altered(procedure):
    results = procedure.rpc(
        "sp_prepexec", [handle(), text("@P1 int"), text("EXEC dbo.p @P1"), Parameter("", INT, 1, False)]
    )
    number = results.values["@handle"]
    procedure.run("ALTER PROCEDURE dbo.p @a int AS SELECT @a + 100")
    results = procedure.rpc("sp_execute", [Parameter("", INT, number, False), Parameter("", INT, 1, False)])
    assert results.sets[0][1] == [(101,)]


def test_what_a_login_keeps_prepared_is_bounded_and_shared_texts_count_once(side, monkeypatch):
    monkeypatch.setattr(handles, "PREPARED_LENGTH_MAX", 10 * handles.HANDLE_LENGTH + 100)
    sessions = [side.connect("db"), side.connect("db")]

    def prepare(number: int, session: ClientSession) -> int:
        parameters = [handle(), text(""), text(f"SELECT {number}".ljust(90))]
        return side.rpc("sp_prepare", parameters, session).values["@handle"]

    kept = [prepare(1, sessions[n % 2]) for n in range(10)]
    with pytest.raises(Message, match="701"):
        prepare(1, sessions[0])
    side.rpc("sp_unprepare", [Parameter("", INT, kept[0], False)], sessions[0])
    with pytest.raises(Message, match="701"):
        prepare(2, sessions[0])
    sessions[1].close()
    sessions[0].reset()
    prepare(2, sessions[0])
    sessions[0].close()
    assert not side.instance.prepared_lengths and not side.instance.prepared_holders


# -- activation ---------------------------------------------------------------------------------------------------------

READER = """CREATE PROCEDURE dbo.Reader AS
BEGIN
    DECLARE @b varbinary(max), @n int = 0;
    PRINT N'spid ' + CAST(@@SPID AS nvarchar(10));
    BEGIN TRANSACTION;
    RECEIVE TOP (1) @b = message_body FROM dbo.q;
    %s
    COMMIT TRANSACTION;
END"""


@pytest.fixture
def send(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE S ON QUEUE dbo.q ([DEFAULT])")

    def send(body: str = "x"):
        side.run(
            "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE S TO SERVICE 'S' WITH ENCRYPTION = OFF; "
            f"SEND ON CONVERSATION @h (N'{body}')"
        )

    return send


def activate(side, procedure):
    side.run(procedure)
    side.run(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, MAX_QUEUE_READERS = 2, EXECUTE AS OWNER)"
    )


def test_an_activated_procedure_runs_in_a_system_session_of_the_database(side, send):
    activate(side, READER % "INSERT dbo.t (n, name) VALUES (@@SPID, DB_NAME());")
    send()
    side.world.run_for(1)
    [(spid, name)] = side.rows("SELECT DISTINCT n, name FROM dbo.t WHERE id = 1")
    assert spid < 51 and name == "db"
    assert list(side.instance.sessions) == [side.session.spid]


def test_output_of_an_activated_procedure_goes_to_the_error_log(side, send):
    activate(side, READER % "SELECT 1 AS discarded;")
    send()
    side.world.run_for(1)
    assert any(
        "The activated proc '[dbo].[Reader]' running on queue 'db.dbo.q' output the following:" in line
        and "spid " in line
        for line in side.engine.error_log.lines
    )


def test_a_transaction_left_open_is_error_8415(side, send):
    activate(side, (READER % "INSERT dbo.t (n) VALUES (1);").replace("COMMIT TRANSACTION;", ""))
    send()
    side.world.run_for(0.5)
    assert any("did not issue COMMIT or ROLLBACK" in line for line in side.engine.error_log.lines)
    assert side.rows("SELECT * FROM dbo.t") == []


def test_the_views_show_a_running_reader(side, send):
    activate(side, READER % "WAITFOR DELAY '00:00:02';")
    send()
    side.world.run_for(1)
    rows = side.rows(
        "SELECT t.procedure_name, s.is_user_process, s.open_transaction_count FROM sys.dm_broker_activated_tasks t JOIN sys.dm_exec_sessions s ON s.session_id = t.spid"
    )
    assert rows == [("[db].[dbo].[Reader]", 0, 1)]
    side.world.run_for(5)  # the task calls it once more, as its RECEIVE brought a row
    assert side.value("SELECT COUNT(*) FROM sys.dm_broker_activated_tasks") == 0


def test_the_log_names_a_missing_procedure(side, send):
    side.run(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Missing, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
    )
    send()
    side.world.run_for(1)
    assert any("Could not find stored procedure" in line for line in side.engine.error_log.lines)


def test_a_procedure_with_parameters_cannot_be_activated(side, send):
    side.run("CREATE PROCEDURE dbo.Reader @a int AS SELECT 1")
    error = side.error(
        "ALTER QUEUE dbo.q WITH ACTIVATION (STATUS = ON, PROCEDURE_NAME = dbo.Reader, MAX_QUEUE_READERS = 1, EXECUTE AS OWNER)"
    )
    assert error.number == 9653


def test_an_instance_that_nobody_uses_is_freed():
    side = World().side("Here")
    assert side.rows("SELECT v.n / 2, LEN(v.s) FROM (VALUES (6, N'abc')) AS v (n, s)") == [(3, 3)]
    instance = weakref.ref(side.instance)
    del side
    gc.collect()
    assert instance() is None
