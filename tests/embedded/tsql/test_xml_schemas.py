"""XML schema collections of message types: what passes, what the error message says, and what a schema may not be."""

import pytest

XSD = '<x:schema xmlns:x="http://www.w3.org/2001/XMLSchema"{0}>{1}</x:schema>'
ORDER = XSD.format(
    ' targetNamespace="urn:shop" elementFormDefault="qualified"',
    '<x:element name="order"><x:complexType><x:sequence><x:element name="line" type="x:int" maxOccurs="9"/></x:sequence>'
    '<x:attribute name="id" use="required"/></x:complexType></x:element>',
)
PLAIN = XSD.format("", '<x:element name="day" type="x:date"/>')
ASK = """
DECLARE @h uniqueidentifier;
BEGIN DIALOG @h FROM SERVICE s TO SERVICE 's' ON CONTRACT k WITH ENCRYPTION = OFF;
SEND ON CONVERSATION @h MESSAGE TYPE m (N'{0}');
"""


@pytest.fixture
def shop(side):
    side.run(f"CREATE XML SCHEMA COLLECTION Orders AS N'<?xml version=\"1.0\"?>{ORDER}<!-- and -->{PLAIN}'")
    side.run(
        "CREATE MESSAGE TYPE m VALIDATION = VALID_XML WITH SCHEMA COLLECTION dbo.orders; CREATE CONTRACT k (m SENT BY ANY)"
    )
    side.run("CREATE QUEUE q; CREATE SERVICE s ON QUEUE q (k)")
    return side


@pytest.mark.parametrize(
    "body",
    [
        '<order xmlns="urn:shop" id="1"><line>1</line><line>2</line></order>',
        "<day>2026-01-02</day><day>2026-01-03</day>",
        "",
    ],
)
def test_what_the_schemas_allow_arrives(shop, body: str) -> None:
    shop.run(ASK.format(body))
    assert shop.rows("SELECT message_type_name FROM q") == [("m",)]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<day>soon</day>", "Invalid simple type value: 'soon'. Location: /*:day[1]"),
        ("<other/>", "Declaration not found for element 'other'. Location: /*:other[1]"),
        ('<order xmlns="urn:shop"><line>1</line></order>', "Required attribute 'id' is missing. Location: /*:order[1]"),
        ('<order xmlns="urn:shop" id="1"/>', "Invalid content. Expected element(s): line. Location: /*:order[1]"),
        (
            '<order xmlns="urn:shop" id="1"><z/></order>',
            "Expected element(s): 'line'. Found: element 'z' instead. Location: /*:order[1]/*:z[1].",
        ),
        (
            '<order xmlns="urn:shop" id="1"><line>1</line><line>x</line></order>',
            "value: 'x'. Location: /*:order[1]/*:line[2]",
        ),
        ("<order", "XML parsing: line 1"),
    ],
)
def test_what_they_do_not_allow_ends_the_conversation(shop, body: str, words: str) -> None:
    shop.run(ASK.format(body))
    texts = [
        text
        for (text,) in shop.rows(
            "SELECT CAST(CAST(message_body AS xml) AS nvarchar(max)) FROM q ORDER BY queuing_order"
        )
    ]
    assert len(texts) == 2 and all(words in text for text in texts), texts
    assert [code in texts[number] for number, code in enumerate(("-9616", "-9615"))].count(True) in (0, 2)


def test_a_collection_outlives_a_restart_and_goes_when_nothing_uses_it(shop) -> None:
    shop.crash()
    shop.run("USE db")
    assert shop.rows(
        "SELECT c.name, m.validation FROM sys.service_message_types AS m "
        "JOIN sys.message_type_xml_schema_collection_usages AS u ON u.message_type_id = m.message_type_id "
        "JOIN sys.xml_schema_collections AS c ON c.xml_collection_id IN (m.xml_collection_id, u.xml_collection_id)"
    ) == [("Orders", "X ")]
    assert shop.error("DROP XML SCHEMA COLLECTION Orders").number == 6328
    assert shop.error("CREATE XML SCHEMA COLLECTION orders AS N''").number == 2714
    shop.run("ALTER MESSAGE TYPE m VALIDATION = WELL_FORMED_XML; DROP XML SCHEMA COLLECTION Orders")
    shop.run(ASK.format("<other/>"))
    assert shop.rows("SELECT message_type_name FROM q") == [("m",)]
    assert shop.error("DROP XML SCHEMA COLLECTION Orders").number == 15151
    shop.run(f"DECLARE @text nvarchar(max) = N'{PLAIN}'; CREATE XML SCHEMA COLLECTION dbo.again AS @text")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<other/>", "other things than XML schemas"),
        (XSD.format("", '<x:element name="a" type="nosuch"/>'), "nosuch"),
        (XSD.format("", '<x:include schemaLocation="/etc/passwd"/>'), "xsd:include"),
        (XSD.format("", '<x:import namespace="urn:x" schemaLocation="file:///etc/passwd"/>'), "xsd:import"),
        (
            XSD.format(
                "", '<x:group name="g"><x:sequence><x:element name="a" maxOccurs="100000"/></x:sequence></x:group>'
            ),
            "maxOccurs",
        ),
        (PLAIN + f"<!--{'x' * 20_000}-->", "20000 characters"),
        (
            XSD.format(
                "", '<x:element name="a"><x:complexType><x:sequence maxOccurs="9"/></x:complexType></x:element>'
            ),
            "xsd:sequence",
        ),
        (
            XSD.format(
                "",
                "".join(
                    f'<x:group name="g{n}"><x:sequence><x:group ref="g{n + 1}"/><x:group ref="g{n + 1}"/></x:sequence></x:group>'
                    for n in range(20)
                )
                + '<x:group name="g20"><x:sequence/></x:group>',
            ),
            "2000 parts",
        ),
        (XSD.format("", '<x:group name="g"><x:sequence><x:group ref="g"/></x:sequence></x:group>'), "2000 parts"),
    ],
)
def test_what_a_collection_may_not_be(side, text: str, words: str) -> None:
    error = side.error(f"CREATE XML SCHEMA COLLECTION c AS N'{text}'")
    assert error.number == 50001 and words in error.text, error.text


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("N'<x:schema'", 9400),
        ("N'<!DOCTYPE x><a/>'", 6359),
        ("1", 529),
        ("NULL", 6314),
        ("GETDATE()", 529),
        ("0x3C61", 9400),
    ],
)
def test_a_collection_is_a_value_of_type_xml(side, value: str, number: int) -> None:
    assert side.error(f"CREATE XML SCHEMA COLLECTION c AS {value}").number == number


def test_a_message_type_needs_a_collection_that_exists(side) -> None:
    assert side.error("CREATE MESSAGE TYPE m VALIDATION = VALID_XML WITH SCHEMA COLLECTION nosuch").number == 6314
