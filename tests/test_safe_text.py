"""No way out of the harness lets through what a terminal, a browser or a reader would obey."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table

from harness.monitors import showing
from harness.monitors.state import Database, Queue, Server, Waiting
from harness.output import terminal
from harness.output.reporting import Bar, Lines, SafeConsole, styled
from harness.output.safe_text import visible, visible_lines
from tests.unsafe import EVERY, NAME, is_unsafe, unsafe_in

NAMES = st.text(st.one_of(st.sampled_from(EVERY), st.characters()))


@given(NAMES)
def test_a_text_stays_as_it_is_but_for_escapes(text: str) -> None:
    assert unsafe_in(visible(text)) == [] and unsafe_in(visible_lines(text), besides="\n") == []
    assert visible_lines(text).count("\n") == text.count("\n")
    if not any(map(is_unsafe, text)):
        assert visible(text) == visible_lines(text) == text


@given(NAMES)
def test_whatever_a_command_prints_is_one_line_without_escape_sequences(text: str) -> None:
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", output)
        patch.setattr("sys.stderr", output)
        terminal.say(text)
        terminal.to_standard_error(text)
        terminal.show_traceback(ValueError, ValueError(text), None)
    one, other, *of_traceback, rest = output.getvalue().split("\n")
    assert unsafe_in(one + other + "".join(of_traceback)) == [] and rest == ""


def console() -> SafeConsole:
    return SafeConsole(file=io.StringIO(), force_terminal=True, color_system=None, width=200)


def printed(on: SafeConsole) -> str:
    assert isinstance(on.file, io.StringIO)
    return on.file.getvalue()


@given(NAMES)
def test_text_in_tables_and_styles_has_no_escape_sequences_and_is_no_markup(text: str) -> None:
    table = Table(text, title=text, caption=text)
    table.add_row(text)
    table.add_row(styled(text, "bold"))
    shown = console()
    shown.print(table, text, sep="\n")
    Lines(shown).note(text)
    assert unsafe_in(printed(shown), besides="\n") == []


def test_the_progress_of_a_run_has_no_escape_sequences_but_its_own() -> None:
    shown = console()
    bar = Bar(shown)
    bar.begin(2, 0)
    bar.phase(NAME)
    bar.cell_done(1, "cell", "failed", NAME)
    bar.end()
    assert (
        "\x1b]0;" not in printed(shown)
        and "\x9b" not in printed(shown)
        and r"\u001b]0;title\u0007[/red]" in printed(shown)
    )


@given(NAMES)
def test_a_view_of_servers_has_no_escape_sequences(name: str) -> None:
    queue = Queue(name, name, 1, False, True, True, True, True, name, True, name, 1, None, None, False, False, 5)
    waiting = Waiting(name, name, None, name, 1, 9.0)
    database = Database(5, name, True, "", queues=[queue], transmission=[waiting], transmission_rows=1)
    server = Server(name, name, [database], problems=[name])
    for height in (None, 10):
        shown = console()
        shown.print(showing.view(server, shown, [server], height=height))
        assert unsafe_in(printed(shown), besides="\n") == []
