"""The documents: every link leads somewhere, every command that a document shows exists."""

import re
from pathlib import Path

import click
import pytest

from harness import cli

ROOT = Path(__file__).parent.parent
FOLDERS = ("harness", "sql", "tests", ".github")
DOCUMENTS = sorted(
    [
        *ROOT.glob("*.md"),
        *ROOT.glob("results/*.md"),
        *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md")),
    ]
)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
COMMAND = re.compile(r"^(?:\$ )?(?:\.venv/bin/)?harness ((?:[a-z]+ ?)+)", re.MULTILINE)
TARGET = re.compile(r"^(?:[A-Z_]+=\S+ )*make ([a-z-]+)", re.MULTILINE)

each_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())


def heading_ids(document: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@each_document
def test_every_link_leads_to_a_file_and_a_heading(document):
    for match in LINK.finditer(document.read_text(encoding="utf-8")):
        link = match[1] or match[2]
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (document.parent / path).resolve() if path else document
        assert target.exists(), f"{link} leads nowhere"
        assert not anchor or anchor in heading_ids(target), f"{link}: no such heading"


@each_document
def test_every_command_that_is_shown_exists(document):
    text = document.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    blocks = "\n".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert set(TARGET.findall(blocks)) <= targets
    for words in COMMAND.findall(blocks):
        command: click.Command = cli.harness
        for word in words.split():
            if not isinstance(command, click.Group):
                break
            found = command.get_command(click.Context(command), word)
            assert found is not None, f"harness {words}: there is no {word}"
            command = found


def test_the_modules_that_the_architecture_names_exist():
    text = (ROOT / "harness" / "README.md").read_text(encoding="utf-8")
    short = {"E/": "embedded/", "B/": "embedded/broker/", "T/": "embedded/tsql/"}
    named = set(re.findall(r"`([\w/]+(?:\.py|\.sql|/))`", text))
    assert len(named) > 50
    for name in sorted(named):
        path = short.get(name[:2], name[:2]) + name[2:]
        assert any((root / path).exists() for root in (ROOT / "harness", ROOT)), name


def test_the_scripts_that_their_guide_names_exist():
    names = re.findall(r"`(\w+/\w+\.sql)`", (ROOT / "sql" / "README.md").read_text(encoding="utf-8"))
    assert len(names) > 30
    assert [name for name in names if not (ROOT / "sql" / name).exists()] == []
