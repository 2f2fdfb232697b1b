"""The register of statements."""

import inspect

import pytest

import harness.embedded.tsql as package
from harness.embedded.tsql.statements import flow
from harness.embedded.tsql.statements.registry import GRAMMAR, register


def test_the_package_docstring_lists_every_statement():
    documented = " ".join(inspect.getdoc(package).partition("by how they begin:")[2].split()).rstrip(".")
    assert documented.split(", ") == sorted(" ".join(words) for words in GRAMMAR)


def test_the_same_words_cannot_begin_statements_of_two_grammars():
    with pytest.raises(AssertionError):
        register("PRINT", lambda parser: flow.Block(parser.line, []), flow.Block)
