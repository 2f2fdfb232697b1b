import io

import pytest

from harness.output.reporting import Bar, Lines, SafeConsole, TimeLeftByCells, TimeLeftByWork, duration


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.4, "0 s"),
        (59, "59 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (3599.6, "1 h 00 min"),
        (1421, "23 min 41 s"),
        (47100, "13 h 05 min"),
    ],
)
def test_durations_are_shown_as_people_say_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_the_time_left_follows_from_the_cells_done() -> None:
    left = TimeLeftByCells()
    left.start(100)
    assert left.left_s(10) is None
    left.cell_done(102, "a")
    left.cell_done(106, "b")
    assert left.left_s(10) == 30


def test_the_time_left_of_cells_that_differ_follows_from_the_work_done_since_the_first() -> None:
    left = TimeLeftByWork({"a": 5.0, "b": 6.0, "c": 3.0, "d": 1.0})
    left.start(0)
    left.cell_done(100, "a")
    assert left.left_s(3) is None
    left.cell_done(112, "b")
    assert left.left_s(2) == 8
    left.cell_done(118, "c")
    assert left.left_s(1) == 2


def test_without_a_terminal_every_cell_is_a_plain_line() -> None:
    output = io.StringIO()
    lines = Lines(SafeConsole(file=output, width=40))
    lines.begin(total=3, completed=1)
    lines.phase("a: settle")
    lines.rate(100)
    lines.cell_done(2, "i1-t5-r150-p100-v2008", "completed", "1,234 sent/s, 1,230 processed/s")
    lines.cell_done(3, "b", "failed", "[initiator-1] was killed by signal 9 (SIGKILL)")
    first, second, third = output.getvalue().splitlines()
    assert first == "1 of 3 cells are done already"
    assert second.startswith("cell 2 of 3: i1-t5-r150-p100-v2008 completed: 1,234 sent/s, 1,230 processed/s, 0 s left")
    assert third == "cell 3 of 3: b failed: [initiator-1] was killed by signal 9 (SIGKILL)"


def test_a_line_without_more_to_say_ends_with_the_time_left() -> None:
    output = io.StringIO()
    lines = Lines(SafeConsole(file=output))
    lines.begin(total=2, completed=0, unit="figure")
    lines.cell_done(1, "gain-map", "completed", "")
    lines.cell_done(2, "waits", "left out", "no waits were recorded")
    assert output.getvalue().splitlines() == [
        "figure 1 of 2: gain-map completed, 0 s left",
        "figure 2 of 2: waits left out: no waits were recorded",
    ]


def test_a_bar_that_counts_other_units_afterwards_keeps_the_first_ones_above() -> None:
    output = io.StringIO()
    bar = Bar(SafeConsole(file=output, width=120, force_terminal=True))
    bar.begin(total=2, completed=0, unit="run")
    bar.phase("measure")
    bar.cell_done(2, "a", "completed", "")
    bar.begin(total=14, completed=0, unit="figure")
    bar.cell_done(1, "waits", "completed", "")
    bar.end()
    above, below = [line for line in output.getvalue().splitlines() if "━" in line][-2:]
    assert "run" in above and "2/2" in above and "measure" not in above
    assert "figure" in below and "1/14" in below


def test_a_bar_that_has_ended_is_not_drawn_again_with_the_next_one() -> None:
    output = io.StringIO()
    bar = Bar(SafeConsole(file=output, width=120, force_terminal=True))
    bar.begin(total=2, completed=0, unit="run")
    bar.phase("measure")
    bar.end()
    assert "measure" not in output.getvalue().splitlines()[-1]
    output.truncate(0)
    bar.begin(total=14, completed=0, unit="figure")
    bar.end()
    assert "run" not in output.getvalue() and "figure" in output.getvalue()


def test_the_bar_shows_cell_phase_rate_and_keeps_failures_on_the_screen() -> None:
    output = io.StringIO()
    bar = Bar(SafeConsole(file=output, width=120, force_terminal=True))
    bar.begin(total=528, completed=2)
    bar.phase("i1-t5-r150-p100-v2008: measure")
    bar.rate(1234.5)
    bar.cell_done(3, "i1-t5-r150-p100-v2008", "failed", "[gone]")
    bar.end()
    shown = output.getvalue()
    for text in ("3/528", "i1-t5-r150-p100-v2008: measure", "1,234 messages/s", "failed: [gone]"):
        assert text in shown


def test_in_a_notebook_a_line_is_printed_and_no_output_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    SafeConsole().print("cell 1 of 2")
    assert capsys.readouterr().out == "cell 1 of 2\n"
