"""Values of type xml: what they become, where they may stand, and the errors of text that is no XML."""

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.xml import values as xml_values

# https://learn.microsoft.com/sql/relational-databases/xml/define-the-serialization-of-xml-data and .../create-instances
SERIALIZED = [
    ("<doc></doc>", "<doc/>"),
    ('<?xml version="1.0" encoding="UTF-16" ?><doc></doc>', "<doc/>"),
    ("\ufeff<?xml version='1.0'?>\n<doc/>", "<doc/>"),
    ("<root a='1' />", '<root a="1"/>'),
    ("<root>\n<a>\n<b>Data b</b>\n</a>\n</root>", "<root><a><b>Data b</b></a></root>"),
    ('<a xml:space="preserve"> <b> </b></a>', '<a xml:space="preserve"> <b> </b></a>'),
    ("<a b='&#10;\"&lt;'>&lt;&#13;</a>", '<a b="&#x0A;&quot;&lt;">&lt;&#x0D;</a>'),
    ("<a><![CDATA[<&]]></a>", "<a>&lt;&amp;</a>"),
    ("<!--c--><a/>text<?pi x?><a/>", "<!--c--><a/>text<?pi x?><a/>"),
    ("", ""),
    ("<x>x</x>", "<x>x</x>"),
]
MISTAKES = [
    ("<a>", 9400),
    ("<a", 9400),
    ("<a></b>", 9436),
    ("</x><x>", 9436),
    ("<a b='1' b='2'/>", 9437),
    ("<p:a/>", 9459),
    ("<a>&foo;</a>", 9448),
    ("a\0b", 9420),
    ("<a>\ud800</a>", 9420),
    ("<!DOCTYPE a><a/>", 6359),
    (129 * "<a>" + 129 * "</a>", 6335),
    ("<?xml version='1.0' encoding='utf-8'?><a/>", 9402),
]


@pytest.mark.parametrize(("text", "serialized"), SERIALIZED)
def test_a_value_is_what_its_text_means(text, serialized):
    assert xml_values.from_text(text, is_unicode=True) == serialized
    assert xml_values.from_text(serialized, is_unicode=True) == serialized


def test_elements_may_be_nested_to_128_levels():
    value = 127 * "<a>" + "<a/>" + 127 * "</a>"
    assert xml_values.from_text(value, is_unicode=True) == value


@pytest.mark.parametrize(("text", "number"), MISTAKES)
def test_text_that_is_no_xml_has_the_number_of_its_mistake(text, number):
    with pytest.raises(SqlServerError) as caught:
        xml_values.from_text(text, is_unicode=True)
    assert caught.value.number == number


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ISNULL(@y, @x)", "<a/>"),
        ("ISNULL(@y, '<b></b>')", "<b/>"),
        ("CAST(ISNULL(@y, '') AS nvarchar(max)) + N'c'", "c"),
        ("COALESCE(@y, '<b></b>')", "<b/>"),
        ("CASE WHEN @y IS NULL THEN @x ELSE @y END", "<a/>"),
        ("CASE WHEN @x IS NULL THEN N'' ELSE @y END", None),
        ("IIF(@y IS NULL, @x, '')", "<a/>"),
    ],
)
def test_xml_is_chosen_as_any_value_is(side, expression, value):
    assert side.value(f"DECLARE @x xml = '<a/>', @y xml; SELECT {expression}") == value


def test_a_mistake_names_its_line_and_character():
    for text, place in (
        ("<a>\n <b></c></a>", "line 2, character 7"),
        ("<?xml version='1.0'?><a></b>", "character 27"),
        ("<a>", "line 1, character 3, unexpected end"),
        ("<a>\n<b>", "line 2, character 3, unexpected end"),
    ):
        with pytest.raises(SqlServerError, match=place):
            xml_values.from_text(text, is_unicode=True)


NAMES = st.sampled_from(["a", "b", "x"])
# XML has no U+FFFE and U+FFFF
CHARACTERS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
TEXTS = st.text(CHARACTERS | st.sampled_from(" \t\n"), max_size=8)


@st.composite
def elements(draw, depth=2):
    node = ElementTree.Element(draw(NAMES), draw(st.dictionaries(NAMES, TEXTS, max_size=2)))
    node.text, node.tail = draw(TEXTS), draw(TEXTS)
    node.extend(draw(st.lists(elements(depth - 1), max_size=3)) if depth else [])
    return node


def meaning(node):
    """What a document says to a reader who has no regard to text of white space alone."""
    texts = tuple((text or "") if (text or "").strip(" \t\n\r") else "" for text in (node.text, node.tail))
    return node.tag, node.attrib, texts, [meaning(child) for child in node]


@given(elements())
def test_every_document_keeps_its_meaning_and_is_serialized_once(document):
    document.tail = None
    written = ElementTree.tostring(document, encoding="unicode")
    value = xml_values.from_text(written, is_unicode=True)
    assert meaning(ElementTree.fromstring(value)) == meaning(ElementTree.fromstring(written))
    for data in (written.encode(), written.encode("utf-16-le"), xml_values.as_binary(written)):
        assert xml_values.from_binary(data) == value


@given(st.text(st.sampled_from("<>/ax =&;!?-[]'\"\n:ä"), max_size=30))
def test_every_text_is_a_value_or_an_error_of_sql_server(text):
    try:
        value = xml_values.from_text(text, is_unicode=True)
    except SqlServerError as error:
        assert error.number in {number for _, number in MISTAKES}
    else:
        assert ElementTree.fromstring(f"<r>{value}</r>") is not None


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("CAST(@x AS nvarchar(max))", "<a>ä</a>"),
        ("CAST(@x AS varchar(20))", "<a>ä</a>"),
        ("CAST(@x AS varbinary(max))", "\ufeff<a>ä</a>".encode("utf-16-le")),
        ("@x", "<a>ä</a>"),
        ("CONVERT(xml, N'<a> </a>', 1)", "<a> </a>"),
        ("CAST(0x3C0061002F003E00 AS xml)", "<a/>"),
        ("TRY_CAST('<a' AS xml)", None),
        ("IIF(@x IS NULL, 1, 2)", 2),
        ("(SELECT CAST(b AS nvarchar(9)) FROM (SELECT CAST(N'<b> </b>' AS xml) AS b) AS t)", "<b/>"),
    ],
)
def test_a_variable_of_type_xml_is_assigned_and_cast(side, expression, value):
    assert side.value(f"DECLARE @x xml = N'<a>ä</a>'; SELECT {expression};") == value


@pytest.mark.parametrize(
    ("statement", "number"),
    [
        ("SET @x = N'<a>'", 9400),
        ("SELECT CAST(@x AS nvarchar(3))", 6354),
        ("SELECT CAST(@x AS varbinary(3))", 6354),
        ("SELECT CAST(CAST(N'<Δ/>' AS xml) AS varchar(9))", 6355),
        ("SELECT CAST(@x AS int)", 529),
        ("SELECT CAST(1 AS xml)", 529),
        ("DECLARE @n nvarchar(max) = @x", 257),
        ("PRINT @x", 257),
        ("EXEC dbo.p @x", 257),
        ("SELECT CONVERT(xml, N'<a/>', 2)", 50001),
        ("DECLARE @b varbinary(max); SET @b = @x", 257),
        ("DECLARE @b varbinary(max); SELECT @b = CAST(N'<a/>' AS xml)", 257),
        ("EXEC dbo.b @x", 257),
        ("SELECT 1 WHERE @x = N'<a/>'", 305),
        ("SELECT 1 WHERE @x IN (N'<a/>')", 305),
        ("SELECT 1 WHERE N'<a/>' IN (@x)", 305),
        ("SELECT 1 WHERE N'<a/>' IN (SELECT @x)", 305),
        ("SELECT 1 WHERE N'<a/>' NOT IN (SELECT N'b' UNION ALL SELECT x FROM (SELECT @x AS x) AS t)", 305),
        ("SELECT 1 WHERE @x BETWEEN N'<a/>' AND N'<b/>'", 305),
        ("SELECT 1 WHERE @x LIKE N'<a/>'", 50001),
        ("SELECT LEN(@x)", 50001),
        ("SELECT CASE @x WHEN N'<a/>' THEN 1 END", 50001),
        ("SELECT CONCAT(@x, N'b')", 50001),
        ("SELECT @x + N'b'", 50001),
        ("SELECT DISTINCT @x", 421),
        ("SELECT @x UNION SELECT N'<b/>'", 5335),
        ("SELECT x FROM (SELECT @x AS x) AS t GROUP BY x", 305),
        ("SELECT x FROM (SELECT @x AS x) AS t ORDER BY x", 305),
        ("SELECT x FROM (SELECT @x AS x) AS t ORDER BY t.x", 305),
        ("SELECT 1 AS n, x FROM (SELECT @x AS x) AS t ORDER BY n, 2", 305),
        ("SELECT ROW_NUMBER() OVER (ORDER BY x) FROM (SELECT @x AS x) AS t", 305),
    ],
)
def test_where_xml_cannot_stand_is_an_error(side, statement, number):
    side.run("CREATE PROCEDURE dbo.p @n nvarchar(max) AS RETURN;")
    side.run("CREATE PROCEDURE dbo.b @b varbinary(max) AS RETURN;")
    assert side.error(f"DECLARE @x xml = N'<a/>'; {statement};").number == number


@pytest.mark.parametrize(
    "text", ["<a>", '<?xml version="1.0" encoding="utf-8"?><a/>', "<a></b>", "<a>&x;</a>", "<p:a/>"]
)
def test_text_that_is_no_xml_dooms_the_transaction_and_ends_the_batch(side, text):
    caught = f"BEGIN TRY DECLARE @x xml; SET @x = N'{text}' END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH"
    assert side.rows(f"BEGIN TRAN; INSERT dbo.t (n) VALUES (1); {caught}; ROLLBACK") == [(-1,)]
    results = side.results(f"BEGIN TRAN; DECLARE @x xml, @t nvarchar(100) = N'{text}'; SET @x = @t; SELECT 'goes on'")
    assert results.sets == [] and side.value("SELECT @@TRANCOUNT") == 0
