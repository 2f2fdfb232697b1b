"""XML schema collections: which XML a message type with VALID_XML WITH SCHEMA COLLECTION takes.

A collection is a text of schemas, one beside the other, each with a target namespace of its own. A value is valid if
for each of its elements the schema of the element's namespace says so. lxml finds what is wrong; the first mistake
becomes SQL Server's error.
"""

import re
from functools import lru_cache

from lxml import etree

from harness.embedded.errors import SqlServerError, UnsupportedSyntax
from harness.embedded.xml.paths import parsed

XSD = "http://www.w3.org/2001/XMLSchema"
TEXT_MAX = 20_000  # characters
OCCURS_MAX = 1000  # of an element
PARTICLES_MAX = 2000
_REFUSED = ("include", "redefine")  # SQL Server refuses them too; a file must not be read
_PARSER = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
_NAME = re.compile(r"Element '(?:\{[^}]*\})?([^']*)'")
_VALUE = re.compile(r": '(.*)' is not a valid value")
_EXPECTED = re.compile(r"Expected is(?: one of)? \( (.*) \)\.$")
_ATTRIBUTE = re.compile(r"The attribute '(?:\{[^}]*\})?([^']*)' is required")


@lru_cache(maxsize=64)
def compiled(text: str) -> dict[str, etree.XMLSchema]:
    """The schemas of a collection, a value of type xml, by their target namespaces."""
    if len(text) > TEXT_MAX:
        raise UnsupportedSyntax(f"a schema collection of more than {TEXT_MAX} characters", 0)
    schemas: dict[str, etree.XMLSchema] = {}
    for schema in parsed(text).iterchildren(etree.Element):
        if schema.tag != f"{{{XSD}}}schema":
            raise UnsupportedSyntax("a schema collection of other things than XML schemas", 0)
        _refuse_what_takes_long(schema)
        try:
            schemas[schema.get("targetNamespace", "")] = etree.XMLSchema(
                etree.fromstring(etree.tostring(schema), _PARSER)
            )
        except etree.XMLSchemaParseError as error:
            raise UnsupportedSyntax(f"this XML schema ({error})", 0) from None
    return schemas


def _refuse_what_takes_long(schema: etree._Element) -> None:
    """Compiling and validating cannot be stopped, and take time by the square of optional particles, and by the product
    of counts in each other."""
    groups = {group.get("name"): group for group in schema.iterchildren(f"{{{XSD}}}group")}
    sizes: dict[str | None, int] = {}

    def size(element: etree._Element) -> int:
        """How many particles a model has, with those of the groups to which it refers."""
        reference = (element.get("ref") or "").rpartition(":")[2] if element.tag == f"{{{XSD}}}group" else ""
        if reference:
            if reference not in sizes:
                sizes[reference] = PARTICLES_MAX + 1  # of one that refers to itself
                sizes[reference] = size(groups[reference]) if reference in groups else 1
            return sizes[reference]
        return 1 + sum(size(child) for child in element.iterchildren(f"{{{XSD}}}*"))

    for element in schema.iter(f"{{{XSD}}}*"):
        name = etree.QName(element).localname
        if name in _REFUSED or (name == "import" and element.get("schemaLocation")):
            raise UnsupportedSyntax(f"xsd:{name} in a schema collection", 0)
        for bound in ("minOccurs", "maxOccurs"):
            number, most = element.get(bound, ""), OCCURS_MAX if name == "element" else 1
            if number.isdecimal() and int(number) > most:
                raise UnsupportedSyntax(f"{bound} above {most} of xsd:{name} in a schema collection", 0)
    if size(schema) > PARTICLES_MAX:
        raise UnsupportedSyntax(f"a schema of more than {PARTICLES_MAX} parts", 0)


def validate(collection: str, value: str) -> None:
    """Raise SQL Server's error unless the value, a document or a fragment, is valid by a collection."""
    for element in parsed(value).iterchildren(etree.Element):
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
