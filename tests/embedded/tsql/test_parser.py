"""The parser, and what it refuses."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.embedded.errors import UNSUPPORTED, SqlServerError
from harness.embedded.tsql.statements import (
    conversations,
    flow,
    insert,
    options,
    queries,
    receive,
    transactions,
    update,
    variables,
)
from harness.embedded.tsql.statements.batches import Execute, compile_batch, parse
from harness.embedded.tsql.statements.registry import GRAMMAR
from harness.embedded.tsql.text.parser import NESTING_MAX
from tests.embedded.tsql.sides import LISTINGS
from tests.examples import share


def kinds(text: str) -> list[type]:
    return [type(statement) for statement in parse(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 1 select 2", [queries.Select, queries.Select]),
        ("declare @a int set @a = 1 + 2 print @a", [variables.Declare, variables.SetVariable, flow.Print]),
        ("update t set a = 1 where b = 2 delete from t", [update.Update, update.Delete]),
        ("insert into t select a from u insert t values (1)", [insert.Insert, insert.Insert]),
        ("insert t (a) select 1 union all select 2 select 3", [insert.Insert, queries.Select]),
        ("with c as (select 1 a) select * from c select 2", [queries.Select, queries.Select]),
        ("select case when 1 = 1 then 2 else 3 end end_ select 1", [queries.Select, queries.Select]),
        ("if 1 = 1 select 1; else select 2 select 3", [flow.If, queries.Select]),
        ("if 1 = 1 begin select 1 end else begin select 2 end return", [flow.If, flow.Return]),
        ("while 1 = 1 break select 1", [flow.While, queries.Select]),
        ("begin try select 1 end try begin catch end catch select 2", [flow.TryCatch, queries.Select]),
        (
            "begin tran commit tran rollback",
            [transactions.BeginTransaction, transactions.CommitTransaction, transactions.RollbackTransaction],
        ),
        ("begin tran begin dialog @h from service a to service 'b' commit", None),
        (
            ";send on conversation @h (@b) end conversation @h with cleanup receive * from q",
            [conversations.Send, conversations.EndConversation, receive.Receive],
        ),
        ("exec p @a, 1 exec p @b = 2 output, @c = default select 1", [Execute] * 2 + [queries.Select]),
        ("dbo.p 1, 2", [Execute]),
        ("p", [Execute]),
        (
            "fetch next from c into @a, @b close c deallocate c",
            [queries.Fetch, queries.CursorOperation, queries.CursorOperation],
        ),
        (
            "select a from t with (nolock) where b = 1 order by a offset 1 rows fetch next 2 rows only select 2",
            [queries.Select] * 2,
        ),
        ("set nocount on set xact_abort off set transaction isolation level read committed", [options.SetOption] * 3),
        ("raiserror('x', 16, 1) with nowait throw", None),
        ("waitfor (receive top (1) * from q into @t), timeout 1000 select 1", [receive.Receive, queries.Select]),
        ("waitfor (get conversation group @g from q) select 1", [receive.GetConversationGroup, queries.Select]),
        ("select 1 send union all select 2 receive from t get where 1 = 1", [queries.Select]),  # names without AS
        ("waitfor delay '00:00:01' select 1", [flow.WaitForDelay, queries.Select]),
    ],
)
def test_statements_end_without_semicolons_as_in_t_sql(text, expected):
    assert kinds(text) == expected or (expected is None and len(parse(text)) == 3 - ("throw" in text))


def test_a_statement_knows_its_line_in_the_batch():
    statements = parse("select 1\n\n/* a\ncomment */\nif 1 = 1\n    print 'x'\n\nselect 2")
    assert [statement.line for statement in statements] == [1, 5, 8]
    assert statements[1].then.line == 6


@pytest.mark.parametrize(
    ("text", "number", "line"),
    [
        ("select 1\nselect from", 156, 2),
        ("select 'abc", 105, 1),
        ("begin\nselect 1", 102, 2),
        ("begin end", 102, 1),
        ("set @a", 102, 1),
        ("declare @a", 102, 1),
        ("break", 135, 1),
        ("\ncontinue", 136, 2),
        ("select @a", 137, 1),
        ("declare @a int declare @a int", 134, 1),
        ("create queue", 102, 1),
        ("send on conversation @h message type", 102, 1),
        ("throw", 10704, 1),
        ("return 1", 178, 1),
    ],
)
def test_mistakes_name_their_line(text, number, line):
    with pytest.raises(SqlServerError) as caught:
        compile_batch(text)
    assert (caught.value.number, caught.value.line) == (number, line)


@pytest.mark.parametrize(
    "text",
    [
        "merge into a using b on 1 = 1 when matched then delete;",
        "select 1\ncreate trigger t on x for insert as select 1",
        "grant",
        "select a from t for xml explicit",
        "waitfor (select 1)",
        "declare @d geometry",
        "declare @x hierarchyid",
        "backup database x to disk = 'y'",
        "alter database x set encryption on",
        "declare @x xml(dbo.s)",
        "execute as login = 'x'",
        "execute as user = 'x' with no revert",
        "set nocount on\nset rowcount 10",
        "create procedure p with encryption as select 1",
        "alter table t drop column a",
    ],
)
def test_what_is_not_supported_is_refused_with_its_line(text):
    with pytest.raises(SqlServerError) as caught:
        compile_batch(text)
    error = caught.value
    assert error.line >= 1
    if error.number == UNSUPPORTED:
        assert f"line {text.count(chr(10)) + 1}" in error.text


WORDS = [
    *sorted({word for words in GRAMMAR for word in words}),
    ",",
    ";",
    "(",
    ")",
    "=",
    "+",
    "-",
    "*",
    ".",
    "@a",
    "@t",
    "'text'",
    "N'x'",
    "0xFF",
    "1",
    "2.5",
    "NULL",
    "[a",
    "b]",
    "from",
    "into",
    "where",
    "and",
    "or",
    "not",
    "in",
    "like",
    "between",
    "is",
    "as",
    "on",
    "with",
    "top",
    "order",
    "by",
    "group",
    "having",
    "join",
    "union",
    "all",
    "values",
    "output",
    "int",
    "nvarchar(10)",
    "table",
    "cursor",
    "for",
    "to",
    "service",
    "conversation",
    "timeout",
    "catch",
    "try",
    "tran",
    "end",
    "else",
    "case",
    "when",
    "then",
    "default",
    "a",
    "b",
    "c",
    "@@rowcount",
    "count(*)",
    "over",
    "exists",
    "distinct",
]


@settings(max_examples=share(400))
@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_the_parser_fails_only_with_errors_of_sql_server(text):
    try:
        compile_batch(text)
    except SqlServerError as error:
        assert error.number > 0 and error.text


@settings(max_examples=share(300))
@given(st.text(max_size=60))
def test_any_text_parses_or_is_an_error_of_sql_server(text):
    try:
        compile_batch(text)
    except SqlServerError as error:
        assert error.text


SCRIPTS = sorted(LISTINGS.glob("*.sql"))


@settings(max_examples=share(60))
@given(st.sampled_from([path.read_text().split("\nGO")[0] for path in SCRIPTS]), st.data())
def test_a_listing_with_a_piece_cut_out_parses_or_is_an_error_of_sql_server(text, data):
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    try:
        compile_batch(text[:start] + text[end:])
    except SqlServerError as error:
        assert error.line >= 0


SIMPLE = ["select 1", "print 'a'", "begin tran", "commit", "declare @v{} int", "set nocount on", "waitfor delay '0:0:1'",
          "exec dbo.p 1", "insert t values (1)", "update t set a = 1", "delete t", "if 1 = 1 select 2", "raiserror ('x', 16, 1)"]  # fmt: skip


@settings(max_examples=share(100))
@given(
    st.lists(st.sampled_from(SIMPLE), min_size=1, max_size=8),
    st.lists(st.sampled_from([" ", "\n", ";", " ; ", "\n-- x\n"]), min_size=8, max_size=8),
)
def test_a_batch_parses_into_its_statements_with_and_without_semicolons(statements, separators):
    numbered = [statement.format(number) for number, statement in enumerate(statements)]
    text = "".join(
        statement + separator for statement, separator in zip(numbered, [s or " " for s in separators], strict=False)
    )
    text = text.replace("commit" + " ", "commit ;").replace("begin tran ", "begin tran ;")
    assert len(parse(text)) == len(numbered)


def test_statements_in_each_other_have_a_limit_which_those_before_do_not_raise():
    before, body = "PRINT 'x'; " * NESTING_MAX, "SELECT 1"
    deepest = "BEGIN " * (NESTING_MAX - 1) + body + " END" * (NESTING_MAX - 1)
    assert len(parse(before + deepest)) == NESTING_MAX + 1
    with pytest.raises(SqlServerError, match="nested statements"):
        parse(f"{before} BEGIN {deepest} END")
