"""The methods of xml, columns of type xml, WITH XMLNAMESPACES and FOR XML, as their pages of the manual show them."""

import json
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.embedded.errors import SqlServerError
from harness.embedded.xml import changes, paths, rows

ORDER = """N'<o id="7" xmlns:p="urn:p"><l q="2">a</l><l q="3">b &amp; c<z/></l><p:m>n</p:m></o>'"""
DECLARE = f"DECLARE @x xml = {ORDER}, @v int = 3, @f xml = N'<f/>', @s nvarchar(9) = N'<s/>';"


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("value('(/o/l)[1]', 'nvarchar(10)')", "a"),
        ("value('/o[1]/@id', 'int')", 7),
        ("value('(/o/l/@q)[2]', 'int')", 3),
        ("value('(/o/l)[2]', 'nvarchar(10)')", "b & c"),
        ("value('(/o/l/text())[1]', 'nvarchar(10)')", "a"),
        ("value('count(/o/l)', 'int')", 2),
        ("value('string(/o[1]/l[1])', 'char(3)')", "a  "),
        ("value('local-name(/*[1])', 'sysname')", "o"),
        ("value('(/o/nosuch)[1]', 'int')", None),
        ("value('(/o/*:m)[1]', 'char(1)')", "n"),
        ("value('declare namespace q=\"urn:p\"; (/o/q:m)[1]', 'char(1)')", "n"),
        ("value('(/o/l[@q = sql:variable(\"@v\")])[1]', 'nvarchar(9)')", "b & c"),
        ("value('(/o/l[@q eq 3 and z]/@q)[1]', 'bigint')", 3),
        ("value('(//l[last()]/@q)[1]', 'int')", 3),
        ("exist('/o/l[@q=3]')", 1),
        ("exist('/o/l[@q=4]')", 0),
        ("exist('/o/l/nosuch')", 0),
        ("query('/o/l[1]')", '<l xmlns:p="urn:p" q="2">a</l>'),
        ("query('/o/l/text()')", "ab &amp; c"),
        ("query('/nosuch')", ""),
        ("value('(/o/comment())[1]', 'char(1)')", None),
        ("value('data((/o/l)[1])', 'char(1)')", "a"),
        ("query('data(/o/l/@q)')", "2 3"),
        ("exist('/o[data(l/@q) = 3]')", 1),
        ("value('upper-case((/o/l)[2])', 'nvarchar(9)')", "B & C"),
    ],
)
def test_a_method_gives_what_its_path_finds(side, call, value):
    assert side.value(f"{DECLARE} SELECT @x.{call}") == value
    side.run(f"CREATE TABLE dbo.orders (body xml); INSERT dbo.orders VALUES ({ORDER}), (NULL)")
    assert side.rows(f"{DECLARE} SELECT o.body.{call} FROM dbo.orders AS o") == [(value,), (None,)]


@pytest.mark.parametrize(
    ("call", "value"),
    [
        ("value('(/b)[1]', 'varbinary(max)')", bytes.fromhex("1234567890")),  # the example of OPENXML
        ("value('(/b)[1]', 'binary(2)')", b"\x12\x34"),
        ("value('(/none)[1]', 'varbinary(max)')", None),
        ("value('(/e)[1]', 'varbinary(9)')", b""),
        ("value('(/h)[1]', 'varbinary(9)')", None),  # no base 64
        ("value('xs:hexBinary((/h/@v)[1])', 'varbinary(9)')", b"\x0a\xff"),
        ("value('xs:hexBinary(substring((/h)[1], 3))', 'varbinary(9)')", b"\x0a\xff"),
        ("value('xs:hexBinary((/b)[1])', 'varbinary(9)')", None),
        ("value('xs:base64Binary(sql:variable(\"@s\"))', 'varbinary(9)')", b"Hello"),
        ("value('xs:base64Binary(sql:variable(\"@v\"))', 'varchar(9)')", "Cv8="),
        ("value('xs:base64Binary(xs:hexBinary(sql:variable(\"@v\")))', 'varchar(9)')", "Cv8="),
        ("value('xs:hexBinary(sql:variable(\"@v\"))', 'nvarchar(9)')", "0AFF"),
        ("value('sql:variable(\"@v\")', 'varbinary(9)')", b"\x0a\xff"),
    ],
)
def test_bytes_are_base_64_in_xml_or_hexadecimal_where_a_path_says_so(side, call, value):
    """Published answers: value() of 'EjRWeJA=' as varbinary, of a column of hash values as varchar."""
    declare = "DECLARE @s varchar(9) = 'SGVsbG8=', @v varbinary(9) = 0x0aff, @x xml = "
    assert side.value(f"{declare} '<b> EjRW eJA= </b><e/><h v=\"0aFF\">0x0aff</h>'; SELECT @x.{call}") == value


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("SELECT @x.value('/o/l', 'int')", 2389),
        ("SELECT @x.value('xs:hexBinary(/o/l)', 'varbinary(9)')", 2389),
        ("SELECT @x.value('//l[1]', 'int')", 2389),
        ("SELECT @x.value('/o[1]/l[@q]', 'int')", 2389),
        ("SELECT @x.value('(/o/l)[1]', 'int')", 245),
        ("SELECT @x.value(@s, 'int')", 8172),
        ("SELECT @x.value('(/o)[1]')", 174),
        ("SELECT @x.value('(/o)[1]', 'nosuch')", 50001),
        ("SELECT @v.value('.', 'int')", 258),
        ("SELECT @x.query('/o/@id')", 2396),
        ("SELECT @x.exist('/q:o')", 2229),
        ("SELECT @x.query('for $i in /o return $i')", 50001),
        ("SELECT @x.query('<a>{/o/l}</a>')", 50001),
        ("SELECT @x.query('if (/o) then 1 else 2')", 50001),
        ("SELECT @x.exist('/o[xs:int(@id) = 1]')", 50001),
        ("SELECT @x.modify('delete /o')", 8137),
        ("SET @x.modify('rename /o')", 6305),
        ("SELECT @x.query(' ')", 6306),
        ("SELECT @x.value('data(/o/l)', 'int')", 2389),
        ("SELECT @x.exist('/o[l eq 1]')", 2389),
        ("SELECT @x.exist('/o[1 lt l and 1 = 1]')", 2389),
        ("SELECT @x.exist('/o[contains(l, \"a\")]')", 2389),
        ("SELECT @x.exist('/o/l[contains(text(), \"a\")]')", 2389),
        ("SELECT @x.exist('/o[string-length(concat(\"a\", l)) = 2]')", 2389),
        ("SELECT @x.value('string(/o/l)', 'int')", 2389),
        ("SELECT @x.exist('/o[contains(\"a\")]')", 2236),
        ("SELECT @x.query('data()')", 2236),
        ("SELECT @x.query('count(/o, /o[1])')", 2238),
        ("SELECT @x.query('data(')", 50001),
        ("SELECT @x.exist('/o/l[starts-with(., \"a\")]')", 2395),
        ("SELECT @x.value('max(/o/l)', 'int')", 50001),
        ("SET @x.modify('insert <n/> into /o/l')", 2226),
        ("SET @x.modify('insert <n/> after //l[1]')", 2226),
        ("SET @x.modify('replace value of /o/l/text() with 1')", 2337),
        ("SET @x.modify('replace value of (/o/l)[1]/text() with 1')", 2337),
        ("SET @x.modify('insert <n>{1}</n> into (/o)[1]')", 50001),
        ("SET @x.modify('insert <n/>, <m/> into (/o)[1]')", 50001),
        ("SET @x.modify('insert sql:variable(\"@s\") into (/o)[1]')", 50001),
        ("SET @x.modify('replace value of (/o/l)[1] with 1')", 50001),
        ("SET @x = NULL; SET @x.modify('delete /o')", 5302),
        ("SELECT n.c FROM @x.nodes('/o') AS n(c)", 493),
        ("SELECT n.c.value('.', 'int') FROM @x.nodes('/o') AS n", 102),
    ],
)
def test_what_a_method_cannot_do_is_an_error(side, text, number):
    assert side.error(f"{DECLARE} {text}").number == number


def test_nodes_are_rows_whose_methods_begin_at_them(side):
    methods = "n.c.value('@q', 'int'), n.c.value('.', 'nvarchar(9)'), n.c.value('../@id', 'int'), n.c.exist('z'), n.c.value('(/o/l/@q)[1]', 'int')"
    found = [(2, "a", 7, 0, 2), (3, "b & c", 7, 1, 2)]
    assert side.rows(f"{DECLARE} SELECT {methods} FROM @x.nodes('/o/l') AS n(c)") == found
    assert side.rows(f"{DECLARE} SELECT c.value('.', 'int') FROM @x.nodes('/o/l/@q') n(c) ORDER BY 1 DESC") == [
        (3,),
        (2,),
    ]
    leaf = "c.value('(.)[1]', 'int'), c.value('text()[1]', 'int'), c.value('../../@id', 'int')"
    assert side.rows(f"{DECLARE} SELECT {leaf} FROM @x.nodes('/o/l[2]/@q') n(c)") == [(3, None, 7)]
    side.run("CREATE TABLE dbo.orders (id int, body xml)")
    side.run(f"INSERT dbo.orders VALUES (1, {ORDER}), (2, N'<o/>'), (3, NULL)")
    joined = "FROM dbo.orders AS o {} APPLY o.body.nodes('/o/l') AS n(c) ORDER BY o.id"
    assert side.rows(f"SELECT o.id, {methods} {joined.format('CROSS')}") == [(1, *row) for row in found]
    assert side.rows(f"SELECT o.id, n.c.value('@q', 'int') {joined.format('OUTER')}") == [
        (1, 2),
        (1, 3),
        (2, None),
        (3, None),
    ]
    nested = "FROM @x.nodes('/o') AS a(o) CROSS APPLY a.o.nodes('l[z]') AS b(l)"
    assert side.rows(f"{DECLARE} SELECT a.o.value('@id', 'int'), b.l.value('@q', 'int') {nested}") == [(7, 3)]
    assert side.value(f"{DECLARE} SELECT COUNT(*) FROM @x.nodes('/o/l') AS n(c) WHERE n.c.exist('z') = 1") == 1


@pytest.mark.parametrize(
    ("select", "value"),
    [
        ("SELECT @s += c.value('@n', 'varchar(5)') FROM @x.nodes('a/b') AS t (c)", "12"),
        (
            "SELECT @s = @s + t.c.value('.', 'varchar(5)') FROM @x.nodes('a/b') AS t (c) WHERE c.exist('@n[. = 2]') = 1",
            "q",
        ),
        ("SELECT @s += CAST(x.query('b') AS varchar(50)) FROM dbo.u", '<b n="7"/>'),
        ("SELECT @s += u.x.value('(b/@n)[1]', 'varchar(5)') + @x.value('(a/b)[1]', 'varchar(5)') FROM dbo.u", "7p"),
    ],
)
def test_a_variable_adds_up_what_methods_give_in_each_row(side, select, value):
    side.run("CREATE TABLE dbo.u (x xml); INSERT dbo.u VALUES ('<b n=\"7\"/>')")
    document = '<a><b n="1">p</b><b n="2">q</b></a>'
    assert side.value(f"DECLARE @s varchar(50) = '', @x xml = '{document}'; {select}; SELECT @s") == value
    assert side.error("DELETE dbo.u OUTPUT deleted.x.value('(b/@n)[1]', 'int')").number == 50001


@pytest.mark.parametrize(
    ("change", "value"),
    [
        ("delete /r/i[1]", '<r a="1">t<j/>u</r>'),
        ("delete //text()", '<r a="1"><i/><j/></r>'),
        ('replace value of (/r/@a)[1] with "7"', '<r a="7"><i>x</i>t<j/>u</r>'),
        ('replace value of (/r/i/text())[1] with sql:variable("@v")', '<r a="1"><i>3</i>t<j/>u</r>'),
        ("replace value of (/r/@a)[1] with count(/r/*)", '<r a="2"><i>x</i>t<j/>u</r>'),
        ('insert <n k="1"/> into (/r)[1]', '<r a="1"><i>x</i>t<j/>u<n k="1"/></r>'),
        ("insert <n/> as first into (/r)[1]", '<r a="1"><n/><i>x</i>t<j/>u</r>'),
        ("insert <n/> after (/r/i)[1]", '<r a="1"><i>x</i><n/>t<j/>u</r>'),
        ("insert <n/> before (/r/j)[1]", '<r a="1"><i>x</i>t<n/><j/>u</r>'),
        ("insert <n/> as first into (/r/i)[1]", '<r a="1"><i><n/>x</i>t<j/>u</r>'),
        ('insert text {"<"} as first into (/r/i)[1]', '<r a="1"><i>&lt;x</i>t<j/>u</r>'),
        ('insert attribute b {"2"} into (/r)[1]', '<r a="1" b="2"><i>x</i>t<j/>u</r>'),
        ('insert sql:variable("@f") as last into (/r)[1]', '<r a="1"><i>x</i>t<j/>u<f/></r>'),
        ("delete /nosuch", '<r a="1"><i>x</i>t<j/>u</r>'),
    ],
)
def test_modify_changes_a_variable_and_a_column(side, change, value):
    before = "N'<r a=\"1\"><i>x</i>t<j/>u</r>'"
    assert side.value(f"{DECLARE} SET @x = {before}; SET @x.modify('{change}'); SELECT @x") == value
    side.run(f"CREATE TABLE dbo.orders (body xml); INSERT dbo.orders VALUES ({before})")
    side.run(f"{DECLARE} UPDATE dbo.orders SET body.modify('{change}') WHERE body IS NOT NULL")
    assert side.value("SELECT body FROM dbo.orders") == value


def test_a_column_of_type_xml_holds_what_is_well_formed(side):
    side.run("CREATE TABLE dbo.orders (id int, body xml NOT NULL DEFAULT N'<none/>', CONSTRAINT k UNIQUE (id))")
    side.run("INSERT dbo.orders (id) VALUES (1); INSERT dbo.orders VALUES (2, N'<a></a>')")
    assert side.error("INSERT dbo.orders VALUES (3, N'<a>')").number == 9400
    assert side.error("SELECT id FROM dbo.orders ORDER BY body").number == 305
    side.crash()
    assert side.rows("USE db; SELECT id, body FROM dbo.orders ORDER BY id") == [(1, "<none/>"), (2, "<a/>")]
    assert side.error("CREATE TABLE dbo.keyed (body xml PRIMARY KEY)").number == 1919


def test_xml_comes_out_of_a_queue(side):
    side.run("CREATE QUEUE dbo.q; CREATE SERVICE s ON QUEUE dbo.q ([DEFAULT])")
    side.run(
        "DECLARE @h uniqueidentifier; BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' WITH ENCRYPTION = OFF;"
        f"SEND ON CONVERSATION @h ({ORDER}); SEND ON CONVERSATION @h ({ORDER})"
    )
    read = "CAST(message_body AS xml).value('(/o/@id)[1]', 'int')"
    assert side.value(f"RECEIVE TOP (1) {read} AS id FROM dbo.q") == 7
    text = "DECLARE @m TABLE (body xml); RECEIVE message_body FROM dbo.q INTO @m; SELECT body.value('(/o/l)[1]', 'char(1)') FROM @m"
    assert side.value(text) == "a"


@pytest.mark.parametrize(
    ("query", "value"),
    [
        ("id, name FROM dbo.p ORDER BY id FOR XML PATH", "<row><id>1</id></row><row><id>2</id><name>b&lt;</name></row>"),
        (
            "id AS '@id', name AS 'a/n', d AS 'a/d', body FROM dbo.p ORDER BY id FOR XML PATH('r'), ROOT('rs')",
            '<rs><r id="1"/><r id="2"><a><n>b&lt;</n><d>2024-01-15T10:30:00</d></a><body><q/></body></r></rs>',
        ),
        ("CAST(0x00 AS uniqueidentifier) AS g FOR XML PATH", "<row><g>00000000-0000-0000-0000-000000000000</g></row>"),
        ("id, name FROM dbo.p ORDER BY id FOR XML RAW", '<row id="1"/><row id="2" name="b&lt;"/>'),
        ("id, body FROM dbo.p WHERE id = 2 FOR XML RAW('z'), ROOT", '<root><z id="2"><body><q/></body></z></root>'),
        ("id FROM dbo.p AS o ORDER BY id DESC FOR XML AUTO", '<o id="2"/><o id="1"/>'),
        (
            "a.id, b.id AS bid, b.id * 2 AS twice FROM dbo.p AS a JOIN dbo.p AS b ON b.id <= a.id ORDER BY a.id, b.id FOR XML AUTO",
            '<a id="1"><b bid="1" twice="2"/></a><a id="2"><b bid="1" twice="2"/><b bid="2" twice="4"/></a>',
        ),
        ("b.id, a.name FROM dbo.p AS a JOIN dbo.p AS b ON b.id = 1 AND a.id = 2 FOR XML AUTO, ROOT, ELEMENTS", "<root><b><id>1</id><a><name>b&lt;</name></a></b></root>"),
        ("a.*, 1 AS one FROM dbo.p AS a, (SELECT 7 AS x) AS y WHERE id = 1 FOR XML AUTO", '<a id="1" one="1"/>'),
        ("id, name FROM dbo.p WHERE id = 2 FOR XML AUTO, ELEMENTS", "<dbo.p><id>2</id><name>b&lt;</name></dbo.p>"),
        (
            "name FROM dbo.p WHERE id = 1 FOR XML PATH('r'), ELEMENTS XSINIL",
            '<r xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><name xsi:nil="true"/></r>',
        ),
        ("1 AS a, 2 AS a, 3 AS 'b/c', 4 AS 'b/d', 'q' FOR XML PATH", "<row><a>12</a><b><c>3</c><d>4</d></b>q</row>"),
        ("'x' AS [my col], CAST(1 AS bit) AS [1b], 2.50 AS n, '' AS e FOR XML RAW, ELEMENTS", "<row><my_x0020_col>x</my_x0020_col><_x0031_b>1</_x0031_b><n>2.50</n><e></e></row>"),
        ("1 AS [a$b], 1 AS [a_x0020_b], 1 AS [-a], 1 AS [a.b], 1 AS [a:b], 1 AS [:a], 1 AS [_x], 1 AS [x_] FOR XML RAW", '<row a_x0024_b="1" a_x005F_x0020_b="1" _x002D_a="1" a.b="1" a:b="1" _x003A_a="1" _x005F_x="1" x_="1"/>'),
        ("id FROM dbo.p AS [a b] WHERE id = 1 FOR XML AUTO", '<a_x0020_b id="1"/>'),
        ("id FROM dbo.p UNION ALL SELECT 7 ORDER BY 1 FOR XML PATH('r')", "<r><id>1</id></r><r><id>2</id></r><r><id>7</id></r>"),
        ("id AS x FROM dbo.p UNION SELECT 7 ORDER BY 1 FOR XML AUTO, ROOT", '<root><dbo.p x="1"/><dbo.p x="2"/><dbo.p x="7"/></root>'),
        ("id FROM dbo.p UNION SELECT 7 ORDER BY 1 FOR JSON PATH", '[{"id":1},{"id":2},{"id":7}]'),
        ("(SELECT 1 AS a UNION ALL SELECT 2 FOR XML PATH(''), TYPE).value('sum(/a)', 'int')", 3),
        ("id AS 'data()' FROM dbo.p ORDER BY id FOR XML PATH('')", "1 2"),
        ("'a' AS 'text()', 1 AS 'data()', 2 AS 'data()' FOR XML PATH('r')", "<r>a1 2</r>"),
        ("id FROM dbo.p ORDER BY id FOR XML RAW(''), ELEMENTS", "<id>1</id><id>2</id>"),
        ("a.id, a.body, b.id AS other FROM dbo.p AS a JOIN dbo.p AS b ON a.id = 2 FOR XML AUTO", '<a id="2"><body><q/></body><b other="1"/></a><a id="2"><body><q/></body><b other="2"/></a>'),
        ("CAST(1.5 AS real) AS r, CAST(1.5 AS money) AS m, CAST('2020-01-02 03:04' AS smalldatetime) AS d FOR XML RAW", '<row r="1.5000000e+000" m="1.5000" d="2020-01-02T03:04:00"/>'),
        ("0x0102FF AS a FOR XML RAW, BINARY BASE64", '<row a="AQL/"/>'),
        (
            "1 AS a, NULL AS b FOR XML PATH(''), ELEMENTS XSINIL",
            '<a xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">1</a>'
            '<b xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:nil="true"/>',
        ),
        ("0x0102 AS v, 1.5e0 AS f FOR XML PATH", "<row><v>AQI=</v><f>1.500000000000000e+000</f></row>"),
        ("'t' AS 'text()', 'c' AS 'comment()', 'd' AS 'data()' FOR XML PATH('e')", "<e>t<!--c-->d</e>"),
        ("STUFF((SELECT ',' + CAST(id AS varchar(9)) FROM dbo.p ORDER BY id FOR XML PATH('')), 1, 1, '')", "1,2"),
        ("STUFF((SELECT ',' + p.name FROM dbo.p AS p FOR XML PATH(''), TYPE).value('.', 'nvarchar(max)'), 1, 1, '')", "b<"),
        (
            "id, (SELECT u.id FROM dbo.p AS u WHERE u.id <= p.id ORDER BY 1 FOR XML PATH('u'), TYPE) AS us FROM dbo.p AS p ORDER BY id FOR XML PATH('t')",
            "<t><id>1</id><us><u><id>1</id></u></us></t><t><id>2</id><us><u><id>1</id></u><u><id>2</id></u></us></t>",
        ),
    ],
)  # fmt: skip
def test_rows_become_xml(side, query, value):
    side.run("CREATE TABLE dbo.p (id int PRIMARY KEY, name nvarchar(9) NULL, d datetime NULL, body xml NULL)")
    side.run("INSERT dbo.p VALUES (2, N'b<', '20240115 10:30', N'<q/>'), (1, NULL, NULL, NULL)")
    assert side.value(f"SELECT {query}") == value


def test_the_result_of_for_xml_has_its_name_and_type(side):
    for query, name, type_ in (("", "XML_F52E2B61-18A1-11d1-B105-00805F49916B", "nvarchar"), (", TYPE", "", "xml")):
        [([column], rows_)] = side.run(f"SELECT 1 AS a FOR XML PATH{query}").sets
        assert (column.name, column.type.name, rows_) == (name, type_, [("<row><a>1</a></row>",)])
    assert side.rows("SELECT id FROM dbo.t FOR XML AUTO") == []
    assert (
        side.value("DECLARE @x xml = (SELECT 1 AS '@a' FOR XML PATH('r'), TYPE); SELECT @x.value('/r[1]/@a', 'int')")
        == 1
    )
    assert side.value("SELECT (SELECT id FROM dbo.t FOR XML AUTO)") is None


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("1 FOR XML RAW", 6809),
        ("1 AS a FOR XML AUTO", 6800),
        ("1 AS a UNION SELECT n FROM dbo.t FOR XML AUTO", 6800),
        ("1 AS a, 2 AS a FOR XML RAW", 6810),
        ("0x01 AS a FOR XML RAW", 6829),
        ("0x01 AS a FROM dbo.t FOR XML AUTO", 6830),
        ("1 AS 'q:a' FOR XML PATH", 6846),
        ("1 AS a FOR XML RAW, ROOT('q:r')", 6846),
        ("1 AS '/a' FOR XML PATH", 6849),
        ("1 AS 'a//b' FOR XML PATH", 6849),
        ("1 AS 'a b' FOR XML PATH", 6850),
        ("1 AS '1a' FOR XML PATH", 6850),
        ("1 AS '@' FOR XML PATH", 6850),
        ("1 AS a FOR XML PATH('a/b')", 6850),
        ("1 AS a FOR XML RAW('r x')", 6850),
        ("1 AS a FOR XML RAW, ROOT('t y')", 6850),
        ("CAST('<a/>' AS xml) AS '@a' FOR XML PATH", 6851),
        ("1 AS a FOR XML RAW, ROOT('')", 6861),
        ("1 AS a FOR XML RAW('')", 6864),
        ("1 AS 'xmlns' FOR XML PATH", 6867),
        ("n AS b, NULL AS '@a' FROM dbo.t FOR XML PATH", 6852),
        ("1 AS a, 2 AS '@b' FOR XML PATH", 6852),
        ("1 AS '@b' FOR XML PATH('')", 6864),
        ("1 AS Tag, NULL AS Parent FOR XML EXPLICIT", 50001),
        ("1 AS a FOR JSON RAW", 50001),
        ("1 AS a FOR XML PATH, XMLSCHEMA", 50001),
    ],
)
def test_what_for_xml_cannot_do_is_an_error(side, query, number):
    assert side.error(f"SELECT {query}").number == number


def test_namespaces_of_a_statement_hold_for_its_paths_and_rows(side):
    names = "WITH XMLNAMESPACES ('urn:p' AS n, DEFAULT 'urn:d')"
    text = f"DECLARE @x xml = N'<a xmlns=\"urn:d\"><b>3</b></a>'; {names} SELECT @x.value('(/a/b)[1]', 'int')"
    assert side.value(text) == 3
    made = '<rs xmlns="urn:d" xmlns:n="urn:p"><n:r><n:a>1</n:a></n:r></rs>'
    assert side.value(f"{names} SELECT 1 AS 'n:a' FOR XML PATH('n:r'), ROOT('rs')") == made
    made = '<a xmlns="urn:d" xmlns:n="urn:p">1</a>2<n:b xmlns="urn:d" xmlns:n="urn:p">3</n:b>'
    assert side.value(f"{names} SELECT 1 AS a, 2 AS 'text()', 3 AS 'n:b' FOR XML PATH('')") == made
    assert side.error("WITH XMLNAMESPACES ('urn:p' AS xml) SELECT 1 AS a FOR XML RAW").number == 6872
    both = "WITH XMLNAMESPACES (DEFAULT 'u'), c AS (SELECT n.value('.', 'int') AS v FROM @x.nodes('/a/b') AS t (n))"
    declared = "DECLARE @x xml = '<a xmlns=\"u\"><b>1</b><b>2</b></a>';"
    assert side.rows(f"{declared} {both}, d AS (SELECT v + 1 AS w FROM c) SELECT w FROM d ORDER BY w") == [(2,), (3,)]


NAMES = st.sampled_from(["a", "b", "c"])


@pytest.mark.parametrize(
    ("document", "condition", "found"),
    [
        ('<a x="01"/><a x="2"/>', '@x="1"', ""),
        ('<a x="01"/><a x="2"/>', "@x=1", "01"),
        ('<a x="abc"/>', "@x!=1", ""),
        ('<a x="abc"/><a x="2"/>', "1!=@x", "2"),
        ('<a x="abc"/>', '@x!="1"', "abc"),
        ('<a x="abc"/><a x="zzz"/><a x="5"/>', '@x<"b"', "abc5"),
        ('<a x="abc"/><a x="zzz"/><a x="5"/>', "@x<10", "5"),
        ('<a x="abc"/><a x="ABC"/>', '@x lt "B"', "ABC"),
        ('<a x="1" y="2"/><a x="2" y="10"/>', "@x<@y", "1"),
        ('<a x="1" y="2"/>', '"0" <= @x and (@y > "1" or false())', "1"),
        ('<a x="2"/>', "@x - 1 = 1", "2"),
        ('<a x="2"/>', "@x-1 = 1", ""),
        ('<a x="1"><b>1</b><b>2</b></a><a x="3"><b>3</b></a>', "b!=1", "13"),
        ('<a x="1"><b>1</b><b>2</b></a><a x="3"><b>3</b></a>', "not(b=1)", "3"),
        ('<a x="1"><b>x</b></a>', 'contains(b[1], "x")', "1"),
    ],
)
def test_a_comparison_is_that_of_xquery_and_not_of_xpath(document, condition, found):
    items = paths.compiled(f"/r/a[{condition}]/@x").items(f"<r>{document}</r>", ())
    assert "".join(items) == found


@st.composite
def trees(draw, depth=3):
    node = ElementTree.Element(draw(NAMES), draw(st.dictionaries(NAMES, st.sampled_from(["1", "<", '"']), max_size=2)))
    node.text = draw(st.sampled_from([None, "t", "&"]))
    node.extend(draw(st.lists(trees(depth - 1), max_size=3)) if depth else [])
    return node


STEPS = st.lists(st.tuples(st.sampled_from(["/", "//"]), st.sampled_from(["a", "b", "*"])), min_size=1, max_size=3)


@given(trees(), STEPS)
def test_a_path_finds_what_another_library_finds(tree, steps):
    document = ElementTree.Element("doc")
    document.append(tree)
    text = ElementTree.tostring(tree, encoding="unicode")
    path = "".join("".join(step) for step in steps)
    found = document.findall("." + path)
    items = paths.compiled(path).items(text, ())
    assert sorted(item.tag for item in items) == sorted(node.tag for node in set(found))

    assert paths.exist(paths.compiled(path), text, ()) == bool(found)


@given(trees())
def test_what_is_inserted_and_deleted_leaves_a_value_as_it_was(tree):
    text = paths.query(paths.compiled("/"), ElementTree.tostring(tree, encoding="unicode"), ())
    for where in ("into", "as first into"):
        put = changes.compiled(f"insert <new/> {where} (/*)[1]")
        taken = changes.compiled("delete //new")
        assert changes.changed(taken, changes.changed(put, text, ()), ()) == text


@given(st.lists(st.tuples(st.text("ab<&\"'é", max_size=4), st.integers()), min_size=1, max_size=4))
def test_rows_can_be_read_again(values):
    shape = rows.Shape("PATH", "r", "rs", False, False, (), ())
    columns = (rows.Column("@t", False), rows.Column("n/v", False))
    text = rows.text(shape, columns, [(name, str(number)) for name, number in values])
    assert [(node.get("t"), int(node.findtext("n/v"))) for node in ElementTree.fromstring(text)] == values


WORDS = st.sampled_from(
    """
    / // . .. @ * ( ) [ ] , = != < | + - :: a b o p:a *:b text() node() count( string( data( not( 1 2.5 "x" 'y' and or eq
    div last() sql:variable("@v") sql:column("t.c") child self for $x in return { } <a/> := fn:count( xs:int( declare ; is to
    """.split()  # noqa: SIM905
)
CHANGES = st.sampled_from(
    ["", "delete ", "insert <n/> into ", "replace value of ", 'insert text {"x"} before ', "insert "]
)


@given(CHANGES, st.lists(WORDS, max_size=7), st.sampled_from(["", " ", " with 1"]))
def test_no_path_is_a_defect(change, words, end):
    """Whatever a path is, it is evaluated, or an error of SQL Server's or of what is not supported."""
    text, value = change + " ".join(words) + end, '<o a="1"><a>x<b/></a>y</o>'
    try:
        if change:
            compiled = changes.compiled(text)
            changes.changed(compiled, value, [1] * len(compiled.arguments))
        else:
            path = paths.compiled(text)
            arguments = [1] * len(path.arguments)
            paths.value(path, value, arguments)
            paths.exist(path, value, arguments)
            paths.query(path, value, arguments)
            for name in json.loads(paths.nodes(path, value, arguments)):
                paths.value(paths.compiled("."), name, ())
                paths.exist(paths.compiled("../b"), name, ())
    except SqlServerError:
        pass


def test_other_paths_and_names_leave_no_functions_behind(side):
    def run(number: int) -> int:
        side.run(
            f"{DECLARE} SELECT @x.value('(/o/l{number})[1]', 'int'); SELECT 1 AS a{number} FOR XML PATH('r{number}')"
        )
        return len(side.instance.sqlite._functions)

    assert run(1) == run(2)


def test_a_column_in_a_path_may_have_any_name(side):
    paths = ", ".join(f"@x.exist('/n[. = sql:column(\"{name}\")]')" for name in ("q.[c.z]", "[q].a", "a", "[c.z]"))
    rows = side.rows(f"DECLARE @x xml = '<n>5</n>'; SELECT {paths} FROM (SELECT 5 AS [c.z], 6 AS a) AS q")
    assert rows == [(True, False, False, True)]
