"""XML schema collections: which XML a message type with VALID_XML WITH SCHEMA COLLECTION takes.

A collection is a text of schemas, one beside the other, each with a target namespace of its own. A value is valid if
for each of its elements the schema of the element's namespace says so. lxml finds what is wrong; the first mistake
becomes SQL Server's error.
"""

from __future__ import annotations

import re
from functools import lru_cache

from lxml import etree

from harness.embedded.errors import SqlServerError, UnsupportedSyntax

XSD = "http://www.w3.org/2001/XMLSchema"
TEXT_MAX = 100_000  # characters: compiling cannot be stopped
OCCURS_MAX = 1000
_REFUSED = ("include", "redefine")  # SQL Server refuses them too; a file must not be read
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
_DECLARATION = re.compile(r"<\?xml[^>]*\?>")
_NAME = re.compile(r"Element '(?:\{[^}]*\})?([^']*)'")
_VALUE = re.compile(r": '(.*)' is not a valid value")
_EXPECTED = re.compile(r"Expected is(?: one of)? \( (.*) \)\.$")
_ATTRIBUTE = re.compile(r"The attribute '(?:\{[^}]*\})?([^']*)' is required")


@lru_cache(maxsize=64)
def compiled(text: str) -> dict[str, etree.XMLSchema]:
    """The schemas of a collection by their target namespaces."""
    if len(text) > TEXT_MAX:
        raise UnsupportedSyntax(f"a schema collection of more than {TEXT_MAX} characters", 0)
    try:
        root = etree.fromstring(f"<collection>{_DECLARATION.sub('', text)}</collection>", _PARSER)
    except etree.XMLSyntaxError as error:
        raise UnsupportedSyntax(f"this XML schema ({error})", 0) from None
    schemas: dict[str, etree.XMLSchema] = {}
    for schema in root:
        if schema.tag != f"{{{XSD}}}schema":
            raise UnsupportedSyntax("a schema collection of other things than XML schemas", 0)
        _refuse_files_and_long_models(schema)
        try:
            schemas[schema.get("targetNamespace", "")] = etree.XMLSchema(
                etree.fromstring(etree.tostring(schema), _PARSER)
            )
        except etree.XMLSchemaParseError as error:
            raise UnsupportedSyntax(f"this XML schema ({error})", 0) from None
    return schemas


def _refuse_files_and_long_models(schema: etree._Element) -> None:
    for element in schema.iter(f"{{{XSD}}}*"):
        name = etree.QName(element).localname
        if name in _REFUSED or (name == "import" and element.get("schemaLocation")):
            raise UnsupportedSyntax(f"xsd:{name} in a schema collection", 0)
        for bound in ("minOccurs", "maxOccurs"):
            if element.get(bound, "0").isdecimal() and int(element.get(bound, "0")) > OCCURS_MAX:
                raise UnsupportedSyntax(f"{bound} above {OCCURS_MAX} in a schema collection", 0)


def validate(collection: str, value: str) -> None:
    """Raise SQL Server's error unless the value, a document or a fragment, is valid by a collection."""
    for element in etree.fromstring(f"<value>{value}</value>", _PARSER):
        if not isinstance(element.tag, str):
            continue
        name = etree.QName(element)
        schema = compiled(collection).get(name.namespace or "")
        document = etree.fromstring(etree.tostring(element, with_tail=False), _PARSER)
        if schema is None:
            raise SqlServerError(6913, name.localname, f"/*:{name.localname}[1]")
        if not schema.validate(document):
            raise _error(schema.error_log[0], document)


def _error(mistake: etree._LogEntry, document: etree._Element) -> SqlServerError:
    named = _NAME.search(mistake.message)
    name = named[1] if named is not None else ""
    place = _location(mistake.path, document)
    if mistake.type_name == "SCHEMAV_CVC_ELT_1":
        return SqlServerError(6913, name, place)
    if (value := _VALUE.search(mistake.message)) is not None:
        return SqlServerError(6926, value[1], place)
    if (attribute := _ATTRIBUTE.search(mistake.message)) is not None:
        return SqlServerError(6906, attribute[1], place)
    expected = _EXPECTED.search(mistake.message)
    names = re.sub(r"\{[^}]*\}", "", expected[1]) if expected is not None else ""
    if "This element is not expected" in mistake.message:
        return SqlServerError(6965, names, name, place)
    return SqlServerError(6908, names, place)


def _location(path: str | None, document: etree._Element) -> str:
    """A place as SQL Server writes it: `/*:order[1]/*:item[2]`."""
    [element, *_] = document.xpath(path or "/*") or [document]
    steps = []
    while element is not None:
        name = etree.QName(element).localname
        steps.append(f"/*:{name}[{1 + sum(1 for _ in element.itersiblings(element.tag, preceding=True))}]")
        element = element.getparent()
    return "".join(reversed(steps))
