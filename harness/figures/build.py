"""Draw all figures of a run, with heads and footers, into files."""

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.text import Text

from harness import claims
from harness.claims.judgement import over_blocks
from harness.definitions.units import counted
from harness.figures import (
    dialog_ratios,
    drift,
    gain,
    instance_activity,
    latency,
    network,
    one_axis,
    pages,
    queue_course,
    rate_lines,
    report,
    sharing,
    soak,
    technique_bars,
    throughput,
    topology,
)
from harness.figures.parts import Sheet, muted_colour, name_lines
from harness.figures.reduced_run import (
    Missing,
    Run,
    clocks,
    footer,
    is_rates_run,
    is_techniques_run,
    judge,
    origin,
    read,
)
from harness.figures.sharing import Drawn, Shared
from harness.files import manifest_file
from harness.files.records import NotWritable
from harness.output.reporting import Reporter
from harness.output.safe_text import visible, visible_lines

STYLE = Path(__file__).with_name("harness.mplstyle")
FORMATS = ("png", "svg")
LINE_IN = 0.165  # height of a line of small text
MARGIN_IN = 0.14
TITLE_POINTS, SUBTITLE_POINTS, FOOTER_POINTS = 13.5, 8.8, 7.6
BOLD = 1.15  # how much wider bold letters are

Drawing = Callable[[], Sheet]
Head = Callable[[Sequence[str]], str]


def draw(results: Path, *, progress: Reporter | None = None) -> list[Path]:
    """Write `figures/`, `reduced/claims` and `report.html` of a run from its reduced tables; return the files, the
    report last.

    A run of `harness techniques` or `harness rates` has no cells: only its own figure is drawn.
    `progress` counts the figures, also those that are left out, with the reason. Raises ResultsError, or NotWritable.
    """
    progress = progress or Reporter()
    if is_techniques_run(results):
        return _draw_techniques(results, progress)
    if is_rates_run(results):
        return _draw_rates(results, progress)
    run = read(Path(results))
    with sharing.shared(run.folder) as work:
        judged = judge(run)
        drawn = _draw_shared(run, work, progress)
    progress.phase("report")
    table = claims.as_table(judged, run_id=run.run_id, lab=run.lab, load_model=run.load_model)
    try:
        tables = claims.write(table, run.folder / "reduced")
    except OSError as error:
        raise NotWritable(f"{run.folder / 'reduced'} cannot be written: {error.strerror}") from None
    return [*drawn, *tables, report.write(run, drawn, judged)]


def _draw_shared(run: Run, work: Shared, progress: Reporter) -> list[Path]:
    """Draw all figures of a run, together with a second process; return their files in the order of the figures."""
    figures = drawings(run)
    progress.begin(len(figures), 0, unit="figure")
    drawn_before: dict[str, Drawn] = {}

    def note(drawn: Mapping[str, Drawn]) -> None:
        for name, figure in drawn.items():
            drawn_before[name] = figure
            progress.cell_done(len(drawn_before), name, "completed" if figure.files else "left out", figure.reason)

    for name, drawn in write_claimed(run, figures, work.folder, figures):
        note({name: drawn} | sharing.told(work.folder, drawn_before))
    work.wait()
    note(sharing.told(work.folder, drawn_before))
    return [Path(path) for name in figures for path in drawn_before[name].files]


def _draw_techniques(results: Path, progress: Reporter) -> list[Path]:
    table = technique_bars.read(results)
    # The footer reads versions and window lengths of `cells`, and this table has the same columns.
    run = Run(folder=results, manifest=manifest_file.read(results), cells=table)
    foot = footer(run, counted=f"{counted(len(table), 'run')} of {counted(table.technique.nunique(), 'technique')}")
    head = functools.partial(origin, run.lab, run.load)
    rows = table.assign(payload_is_mean=run.payload_is_mean)
    drawings = {"techniques": functools.partial(technique_bars.draw, rows)}
    return write(drawings, results / "figures", head, foot, progress)


def _draw_rates(results: Path, progress: Reporter) -> list[Path]:
    table = rate_lines.read(results)
    run = Run(folder=results, manifest=manifest_file.read(results), cells=table)
    head = functools.partial(origin, run.lab, run.load)
    foot = footer(run, counted=counted(len(table), "step"))
    return write({"rates": functools.partial(rate_lines.draw, table)}, results / "figures", head, foot, progress)


def draw_queue_course(results: Path, cell_id: str, block: int) -> list[Path]:
    """Draw one cell's queues, queue monitors and readers from its raw samples; return the files.

    `cell_id` may be the beginning of an id that no other cell begins with. Raises ResultsError.
    """
    course = queue_course.read(results, cell_id, block)
    run = Run(folder=results, manifest=manifest_file.read(results), cells=course.cells)
    course.cells["payload_is_mean"] = run.payload_is_mean
    head = functools.partial(origin, run.lab, run.load)
    name = f"queue-course-{course.cell.cell_id}-b{block}"
    figure = {name: functools.partial(queue_course.draw, course)}
    return write(figure, results / "figures", head, footer(run), Reporter())


def drawings(run: Run) -> dict[str, Drawing]:
    """Return the drawing of every figure of a run, by the name of its files."""
    merged = over_blocks(run)
    throughputs = {
        throughput.name(initiators): functools.partial(throughput.by_threads, merged.cells, run.cells, initiators)
        for initiators in sorted({*throughput.PAPER_FIGURE, *map(int, run.cells.initiators.unique())})
    }
    axis = one_axis.of(run.cells)
    return {
        **({"figure-1-topology": functools.partial(topology.draw, run)} if topology.is_known(run.manifest) else {}),
        **throughputs,
        **({one_axis.name(axis): functools.partial(one_axis.draw, run.cells, axis)} if axis else {}),
        "figure-5-gain": functools.partial(gain.by_threads, gain.of_one_ratio(run.gain)),
        # The paper's two ratios are a pair of points, not a course.
        **(
            {"gain-by-ratio": functools.partial(dialog_ratios.by_ratio, run.gain)}
            if dialog_ratios.has_course(run.gain)
            else {}
        ),
        "gain-map": functools.partial(gain.over_matrix, gain.of_one_ratio(run.gain)),
        "waits": functools.partial(instance_activity.waits, merged.waits, merged.cells),
        "page-latches": functools.partial(pages.latches, run.latch_share),
        "page-spread": functools.partial(pages.spread, run.page_spread),
        "log-writes": functools.partial(instance_activity.logs, merged, run),
        "latency": functools.partial(latency.of_send, merged.cells, run.cells),
        "end-to-end": functools.partial(
            latency.end_to_end, merged.cells, run.cells, clocks(run.manifest), is_counted=run.is_counted
        ),
        "queues": functools.partial(throughput.queues, run.bins, run.seconds, run.cells),
        **(
            {"network": functools.partial(network.draw, run.cells, run.counters)}
            if network.is_known(run.counters)
            else {}
        ),
        **(
            {"soak": functools.partial(soak.draw, run.cells, run.folder)}
            if soak.is_visible(run)
            else {"drift": functools.partial(drift.draw, run.cells)}
            if drift.is_visible(run)
            else {}
        ),
        # The table was added by a run of `harness techniques`.
        **({} if run.techniques.empty else {"techniques": functools.partial(technique_bars.draw, run.techniques)}),
    }


def write_claimed(
    run: Run, figures: Mapping[str, Drawing], folder: Path, names: Iterable[str]
) -> Iterator[tuple[str, Drawn]]:
    """Write those figures of a run that the other process has not claimed in `folder`, one at a step."""
    head, foot = functools.partial(origin, run.lab, run.load), footer(run)
    for name in sharing.claimed(folder, names):
        yield name, _write_one(name, figures[name], run.folder / "figures", head, foot)


def write(
    drawings: Mapping[str, Drawing], folder: Path, head: Head, foot: Sequence[str], progress: Reporter
) -> list[Path]:
    """Draw, frame and save each figure; leave out a figure without data and remove its older files.

    `head` turns the versions that a figure shows into the line above its title.
    """
    progress.begin(len(drawings), 0, unit="figure")
    written: list[Path] = []
    for number, (name, drawing) in enumerate(drawings.items(), 1):
        progress.phase(name)
        drawn = _write_one(name, drawing, folder, head, foot)
        progress.cell_done(number, name, "completed" if drawn.files else "left out", drawn.reason)
        written += map(Path, drawn.files)
    return written


def _write_one(name: str, drawing: Drawing, folder: Path, head: Head, foot: Sequence[str]) -> Drawn:
    paths = [folder / f"{name}.{ending}" for ending in FORMATS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Whatever else this process draws with: the second process knows nothing of that.
        with style.context(STYLE, after_reset=True):
            try:
                figure = drawing()
            except Missing as reason:
                for path in paths:
                    path.unlink(missing_ok=True)
                return Drawn([], str(reason))
            frame(figure, head(figure.versions), foot)
            for path in paths:
                # Without a date in the file, the same data give the same file.
                figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    except OSError as error:
        raise NotWritable(f"{folder} cannot be written: {error.strerror}") from None
    return Drawn([str(path) for path in paths], "")


def frame(figure: Sheet, head: str, foot: Sequence[str]) -> None:
    """Add head, title and subtitle above the panels and the footer below, and lay the figure out for good.

    It grows by their height.
    """
    _make_visible(figure)
    head, foot = visible(head), [visible(line) for line in foot]
    width, height = figure.get_size_inches()
    room = width - 2 * MARGIN_IN
    below_title = wrap(figure.subtitle, " ", SUBTITLE_POINTS, room)
    head_lines = wrap(head, " ", SUBTITLE_POINTS, room)
    foot_lines = [line for text in foot for line in wrap(text, " · " if " · " in text else " ", FOOTER_POINTS, room)]
    title = wrap(figure.title, " ", TITLE_POINTS * BOLD, room)
    at_title = MARGIN_IN + LINE_IN * len(head_lines) + 0.04
    under_title = at_title + 0.06 + 0.24 * len(title)
    top = under_title + LINE_IN * len(below_title) + 0.12
    bottom = MARGIN_IN + LINE_IN * 0.93 * len(foot_lines) + 0.08
    total_height = height + top + bottom
    figure.set_size_inches(width, total_height)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.005, bottom / total_height, 0.985, height / total_height))  # type: ignore[call-arg]
    left = MARGIN_IN / width
    small: dict[str, Any] = {"color": muted_colour(), "linespacing": 1.3}
    figure.text(left, 1 - MARGIN_IN / total_height, "\n".join(head_lines), va="top", fontsize=SUBTITLE_POINTS, **small)
    figure.text(left, 1 - at_title / total_height, "\n".join(title), va="top", fontsize=TITLE_POINTS, fontweight="bold")
    figure.text(
        left, 1 - under_title / total_height, "\n".join(below_title), va="top", fontsize=SUBTITLE_POINTS, **small
    )
    figure.text(left, MARGIN_IN / total_height, "\n".join(foot_lines), va="bottom", fontsize=FOOTER_POINTS, **small)
    engine.execute(figure)
    if name_lines(figure):
        engine.execute(figure)  # the names need room too
    # That layout is the last: saving would repeat it for each format.
    figure.set_layout_engine(None)


def _make_visible(figure: Sheet) -> None:
    """Show as escapes what text of servers must not contain, in each text of a figure and each name at an axis."""
    figure.title, figure.subtitle = visible(figure.title), visible(figure.subtitle)
    for formatter in (axis.get_major_formatter() for ax in figure.axes for axis in (ax.xaxis, ax.yaxis)):
        formatter.format_ticks = functools.partial(_visible_ticks, formatter.format_ticks)  # type: ignore[method-assign]
    for text in figure.findobj(Text):
        text.set_text(visible_lines(text.get_text()))


def _visible_ticks(name: Callable[[Any], list[str]], places: Any) -> list[str]:
    return [visible_lines(label) for label in name(places)]


def wrap(text: str, separator: str, points: float, width_in: float) -> list[str]:
    """Break `text` at separators into lines of at most `width_in`."""
    words, lines = text.split(separator), []
    while words:
        # Text becomes no narrower with another word, so that a few of the many widths are measured.
        fitting = bisect_right(
            range(1, len(words) + 1), width_in, key=lambda count: _width_in(separator.join(words[:count]), points)
        )
        lines.append(separator.join(words[: max(fitting, 1)]))
        del words[: max(fitting, 1)]
    return lines


@functools.lru_cache(maxsize=10_000)  # the figures of a run have head and footer in common
def _width_in(text: str, points: float) -> float:
    font = get_font(findfont(FontProperties()))
    font.set_size(points, 72)
    font.set_text(text)
    return float(font.get_width_height()[0]) / 64 / 72
