"""The pages of sys.sysdesend that hold the used dialogs, and the objects whose pages tasks waited for."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from harness.claims.judgement import of_the_paper
from harness.definitions.whitepaper import (
    BASE_DIALOG_RATIO,
    LATCHED_TABLE,
    NO_GAIN_UP_TO,
    SYSDESEND_ROWS_PER_PAGE,
    TRICK_DIALOG_RATIO,
)
from harness.figures import parts
from harness.figures.reduced_run import Missing, listed

QUEUE, OTHER, UNRESOLVED = "the queue's own table", "other objects", "not resolved"
OBJECTS = (LATCHED_TABLE, "sys.sysxmitqueue", QUEUE, OTHER, UNRESOLVED)
SHARE_SHOWN_FROM = 0.1  # tasks waiting at a time: the share of fewer is meaningless
HATCHES = ("", "////", "....", "", "xxxx")
ROLES = {"initiator": "An initiator", "target": "The target"}
CELL = ["server_version", "initiators", "threads", "payload_bytes", "dialog_ratio"]


def spread(page_spread: pd.DataFrame) -> parts.Sheet:
    """Draw the number of pages by the number of used dialogs of an initiator; one panel per version."""
    ratios = parts.shown_ratios([] if page_spread.empty else page_spread.dialog_ratio)
    sentences = spread_sentences(page_spread[page_spread.dialog_ratio.isin(ratios)] if ratios else page_spread)
    versions = sorted(page_spread.server_version.unique())
    fig = parts.Sheet(max(2.2 + 4.1 * len(versions), 7.4), 4.6)
    panels = fig.subplots(1, len(versions), sharex=True, sharey=True, squeeze=False)[0]
    most = int(page_spread.used_dialogs.max())
    for ax, version in zip(panels, versions, strict=True):
        rows = page_spread[page_spread.server_version == version]
        ax.plot([1, most], [1, most], color="#d9d9de", linewidth=7, solid_capstyle="round", zorder=0)
        page_words = "a page of its own for every dialog"
        parts.note(ax, page_words, (most * 0.42, most * 0.5), colour=parts.muted_colour(), ha="right", va="bottom")
        for ratio in sorted(rows.dialog_ratio.unique(), reverse=True):
            # One row per number of used dialogs, in ascending order.
            points = parts.over_versions(rows[rows.dialog_ratio == ratio], ["used_dialogs"], "pages")
            bars = [points["mean"] - points["min"], points["max"] - points["mean"]]
            ax.errorbar(
                points.used_dialogs,
                points["mean"],
                yerr=bars if (points["max"] > points["min"]).any() else None,
                elinewidth=0.9,
                markeredgecolor="white",
                label=parts.ratio_words(ratio),
                **parts.ratio_style(ratio, page_spread.dialog_ratio),
            )
        ax.set_xlim(0, most * 1.04)
        ax.set_ylim(0, most * 1.08)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(f"{version}: {_sequence_words(rows)}")
        ax.set_xlabel("used dialogs of an initiator (its client threads)")
    panels[0].set_ylabel("pages of sys.sysdesend that hold them")
    parts.legend_below(panels[-1])
    paper = (
        f"The paper: at most {SYSDESEND_ROWS_PER_PAGE} rows fit on a page, so every {TRICK_DIALOG_RATIO}th dialog has"
    )
    subtitle = f"{' '.join(sentences)} {paper} a page of its own."
    fig.entitle("Pages of sys.sysdesend that hold the used dialogs", subtitle, page_spread)
    return fig


def spread_sentences(page_spread: pd.DataFrame) -> list[str]:
    """Describe the largest pools, a sentence per dialog ratio; raises Missing if no page was read."""
    if page_spread.empty:
        raise Missing("the pages of the dialogs were not read (that needs the dedicated administrator connection)")
    sentences = []
    for ratio in sorted(page_spread.dialog_ratio.unique()):
        rows = page_spread[page_spread.dialog_ratio == ratio]
        largest = rows[rows.used_dialogs == rows.used_dialogs.max()]
        dialogs = parts.used_dialogs(ratio).capitalize()
        sharing, used = largest.dialogs_sharing_a_page, int(largest.used_dialogs.iloc[0])
        if sharing.max() == 0:
            words = "none shares its page with another"
        elif sharing.min() == used:
            words = f"all share their page with others (up to {largest.dialogs_per_page_max.max()} on one)"
        else:
            words = (
                f"{_range(sharing)} share their page with others (up to {largest.dialogs_per_page_max.max()} on one)"
            )
        sentences.append(
            f"{dialogs}: {used} dialog{'s lie' if used > 1 else ' lies'} on {_range(largest.pages)} "
            f"page{'s' * int(largest.pages.max() > 1)}{f', {words}' if used > 1 else ''}."
        )
    return sentences


def sequence_sentence(page_spread: pd.DataFrame) -> str:
    """Say by version whether handles ascend in the order in which dialogs were begun; empty if unknown."""
    with_order = page_spread.dropna(subset=["handles_sequential"])
    always = with_order.groupby("server_version").handles_sequential.agg(lambda values: bool(values.astype(bool).all()))
    sentences = []
    for ascends, words in ((True, "ascend"), (False, "do not ascend")):
        versions = [str(version) for version, value in always.items() if value is ascends]
        if versions:
            sentences.append(f"{words} in the order in which the dialogs were begun on {listed(versions)}")
    return f"Conversation handles {'; they '.join(sentences)}." if sentences else ""


def _sequence_words(rows: pd.DataFrame) -> str:
    are_sequential = rows.handles_sequential.dropna().astype(bool)
    if are_sequential.empty:
        return "order of handles unknown"
    return f"handles{'' if are_sequential.all() else ' not'} in the order of BEGIN DIALOG"


def _range(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def latches(latch_share: pd.DataFrame) -> parts.Sheet:
    """Draw the tasks that wait at a time, stacked by object, by threads; a row per role, a column per dialog ratio."""
    table = waiting(latch_share)
    initiators = int(table.initiators.max())
    rows = table[table.initiators == initiators]
    roles = [role for role in ROLES if rows.times_seen[rows.role == role].sum() > 0]
    if not roles:
        raise Missing(f"with {parts.count(initiators)}, no task was seen waiting for a page latch")
    ratios = sorted(parts.shown_ratios(rows.dialog_ratio))
    threads = sorted(rows.threads.unique())
    fig = parts.Sheet(2.0 + 4.3 * len(ratios), 0.9 + 2.75 * len(roles))
    panels = fig.subplots(len(roles), len(ratios), sharex=True, sharey="row", squeeze=False)
    for row, role in zip(panels, roles, strict=True):
        for ax, ratio in zip(row, ratios, strict=True):
            stacks = _means(rows[(rows.role == role) & (rows.dialog_ratio == ratio)], threads)
            _stack(ax, stacks, named=role == "initiator")
            ax.set_title(f"{ROLES[role]}, {parts.used_dialogs(ratio)}")
        row[0].set_ylabel("tasks waiting for a page latch\n(mean of all samples)")
        row[0].set_ylim(0, max(ax.get_ylim()[1] for ax in row) * 1.3)
        if role == "initiator" and not of_the_paper(rows).empty:
            _paper(row, ratios, threads, initiators)
    for ax in panels[-1]:
        ax.set_xticks(range(len(threads)), [str(number) for number in threads])
        ax.set_xlabel("client threads per initiator")
    drawn = dict(pair for ax in panels.flat for pair in zip(*ax.get_legend_handles_labels()[::-1], strict=True))
    parts.legend_below(panels[-1][-1], {name: drawn[name] for name in OBJECTS if name in drawn})
    fig.entitle(
        f"Whose pages tasks waited for: page latches by object, {parts.count(initiators)}", _finding(rows), rows
    )
    return fig


def waiting(latch_share: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of cells that have a partner of the other ratio, or of all cells if none has, with role and kind.

    Raises Missing if waiting tasks were not sampled, or no task was ever seen waiting.
    """
    if latch_share.empty or latch_share.looks.fillna(0).sum() == 0:
        raise Missing("tasks that wait for page latches were not sampled")
    table = latch_share.dropna(subset=["looks"])
    partners = table.groupby(CELL[:-1]).dialog_ratio.transform("nunique")
    table = table[partners > 1] if (partners > 1).any() else table
    if not table.times_seen.sum():
        raise Missing(f"in {int(_samples(table)):,} samples no task was seen waiting for a page latch")
    return table.assign(
        role=np.where(table.instance == "target", "target", "initiator"), kind=table.object_name.map(kind)
    )


def kind(name: object) -> str:
    """Return the entry of OBJECTS to which an object belongs."""
    text = name if isinstance(name, str) else OTHER
    if text in OBJECTS:
        return text
    return QUEUE if text.startswith("queue ") else OTHER


def latch_sentences(latch_share: pd.DataFrame, index_waits: pd.DataFrame, *, is_model: bool) -> list[str]:
    """Say how many tasks waited and for whose pages, by role and dialog ratio, over all cells; then whether the
    instances' own totals put the same object first, which those of a model cannot but do."""
    table = waiting(latch_share)
    sentences = []
    for role, role_words in ROLES.items():
        for ratio in sorted(table.dialog_ratio.unique()):
            rows = table[(table.role == role) & (table.dialog_ratio == ratio)]
            samples, times = _samples(rows), int(rows.times_seen.sum())
            if not samples:
                continue
            dialogs = parts.used_dialogs(ratio)
            if not times:
                sentences.append(f"{role_words}, {dialogs}: no task waited in {samples:,.0f} samples.")
                continue
            shares = 100 * rows.groupby("kind").times_seen.sum() / times
            exclusive = 100 * rows.times_seen[rows.wait_type == "PAGELATCH_EX"].sum() / times
            percents = [f"{name} {shares.get(name, 0):.0f} %" for name in OBJECTS[:1]]
            percents += [f"{name} {shares[name]:.0f} %" for name in OBJECTS[1:] if shares.get(name, 0) >= 0.5]
            sentences.append(
                f"{role_words}, {dialogs}: {parts.short(times / samples)} tasks wait at a time, {', '.join(percents)} "
                f"(PAGELATCH_EX {exclusive:.0f} %)."
            )
    return sentences if is_model else [*sentences, *_by_totals(table, index_waits)]


def _by_totals(samples: pd.DataFrame, index_waits: pd.DataFrame) -> list[str]:
    """Compare the object whose pages tasks were most often seen waiting for with the one that has the longest waits in
    the instances' own totals, by role and dialog ratio.

    The totals have no allocation pages and nothing of other databases.
    """
    if index_waits.empty:
        return []
    compared, sentences = 0, []
    totals = index_waits.assign(role=np.where(index_waits.instance == "target", "target", "initiator"))
    tables = samples[
        ~samples.object_name.isin([UNRESOLVED]) & ~samples.object_name.str.startswith("allocation", na=True)
    ]
    for (role, ratio), rows in tables.groupby(["role", "dialog_ratio"]):
        counted = totals[(totals.role == role) & (totals.dialog_ratio == ratio) & totals.cell_id.isin(rows.cell_id)]
        times = rows.groupby("object_name").times_seen.sum()
        waited = counted.groupby("object_name").page_latch_wait_ms.sum()
        if not times.sum() or not waited.sum():
            continue
        compared += 1
        by_samples, by_totals = times.idxmax(), waited.idxmax()
        if by_samples == by_totals:
            continue
        lacks = "" if by_samples in waited.index else f", which do not list {by_samples}"
        sentences.append(
            f"{ROLES[role]}, {parts.used_dialogs(ratio)}: samples and totals disagree. Most tasks were seen waiting "
            f"for {by_samples} ({100 * times.max() / times.sum():.0f} % of the samples), and {by_totals} has "
            f"the longest waits in sys.dm_db_index_operational_stats "
            f"({100 * waited.max() / waited.sum():.0f} % of the time){lacks}."
        )
    if compared and not sentences:
        return ["The instances' own totals (sys.dm_db_index_operational_stats) put the same objects first."]
    return sentences


def _finding(table: pd.DataFrame) -> str:
    sentences = []
    for ratio, rows in table[table.role == "initiator"].groupby("dialog_ratio"):
        times = rows.times_seen.sum()
        share = 100 * rows.times_seen[rows.kind == LATCHED_TABLE].sum() / times if times else 0
        dialogs = parts.used_dialogs(ratio)
        sentences.append(
            f"{dialogs}, {parts.short(times / _samples(rows))} tasks at a time, {share:.0f} % of them "
            f"for {LATCHED_TABLE}"
        )
    waiting = f"Waiting at an initiator: {'; '.join(sentences)} (percentages above the bars). " if sentences else ""
    return f"{waiting}From {_samples(table):,.0f} samples of an instance's waiting tasks in the measured windows."


def _samples(rows: pd.DataFrame) -> float:
    """Count the samples of instances: those of an instance count once, whatever objects its tasks waited for."""
    return float(rows.drop_duplicates(["cell_id", "block", "instance"]).looks.sum())


def _means(rows: pd.DataFrame, threads: list[int]) -> pd.DataFrame:
    """Return tasks waiting at a time in one instance: a row per number of threads, a column per kind of object."""
    times = rows.pivot_table(index="threads", columns="kind", values="times_seen", aggfunc="sum")
    samples = pd.Series({number: _samples(rows[rows.threads == number]) for number in threads})
    return times.reindex(threads, columns=list(OBJECTS)).fillna(0).div(samples.where(samples > 0), axis=0).fillna(0)


def _stack(ax: Axes, stacks: pd.DataFrame, *, named: bool) -> None:
    at = np.arange(len(stacks))
    floor = np.zeros(len(stacks))
    for place, name in enumerate(OBJECTS):
        heights = stacks[name].to_numpy()
        colour = "#b9b9c0" if name == UNRESOLVED else parts.cycle_entry(place)["color"]
        if heights.any():
            ax.bar(at, heights, 0.72, bottom=floor, color=colour, hatch=HATCHES[place], label=name, linewidth=0)
        floor += heights
    ax.grid(visible=False, axis="x")
    ax.tick_params(axis="x", length=0)
    if not named:
        return
    for x, height, part in zip(at, floor, stacks[LATCHED_TABLE], strict=True):
        if height >= SHARE_SHOWN_FROM:
            parts.note(ax, f"{100 * part / height:.0f} %", (x, height), shift=(0, 2), ha="center", fontsize=7)


def _paper(row: list[Axes], ratios: list[int], threads: list[int], initiators: int) -> None:
    """Mark what the paper states, at the loads of which it states it."""
    words = {
        BASE_DIALOG_RATIO: f"the paper, SQL Server: page latch contention\non {LATCHED_TABLE} above 15 threads in all",
        TRICK_DIALOG_RATIO: "the paper, SQL Server: the 150 trick\nremoves the latch contention on this table",
    }
    contended = [place for place, number in enumerate(threads) if number * initiators > NO_GAIN_UP_TO.value]
    for ax, ratio in zip(row, ratios, strict=True):
        if ratio not in words or not contended:
            continue
        ax.axvspan(
            contended[0] - 0.5, len(threads) - 0.5, color=parts.paper_colour(), alpha=0.055, linewidth=0, zorder=0
        )
        corner, where = (len(threads) - 0.55, 0.98), ("data", "axes fraction")
        parts.note(ax, words[ratio], corner, where, parts.paper_colour(), ha="right", va="top")
