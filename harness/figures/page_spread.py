"""The pages of sys.sysdesend on which used dialogs lie, with and without the 150 trick."""

from __future__ import annotations

import pandas as pd
from matplotlib.ticker import MaxNLocator

from harness.figures.parts import RATIO_WORDS, Sheet, cycle_entry, muted_colour, over_versions, used_dialogs
from harness.figures.reduced_run import Missing, listed
from harness.whitepaper import BASE_DIALOG_RATIO, SYSDESEND_ROWS_PER_PAGE, TRICK_DIALOG_RATIO

STYLES = {TRICK_DIALOG_RATIO: 0, BASE_DIALOG_RATIO: 2}  # entries of the style's cycle


def draw(page_spread: pd.DataFrame) -> Sheet:
    """Draw the number of pages by the number of used dialogs of an initiator; one panel per version."""
    told = sentences(page_spread)
    versions = sorted(page_spread.server_version.unique())
    fig = Sheet(max(2.2 + 4.1 * len(versions), 7.4), 4.6)
    panels = fig.subplots(1, len(versions), sharex=True, sharey=True, squeeze=False)[0]
    most = int(page_spread.used_dialogs.max())
    for ax, version in zip(panels, versions, strict=True):
        rows = page_spread[page_spread.server_version == version]
        ax.plot([1, most], [1, most], color="#d9d9de", linewidth=7, solid_capstyle="round", zorder=0)
        ax.annotate(
            "a page of its own for every dialog",
            (most * 0.42, most * 0.5),
            ha="right",
            va="bottom",
            fontsize="small",
            color=muted_colour(),
        )
        for ratio in sorted(rows.dialog_ratio.unique(), reverse=True):
            points = over_versions(rows[rows.dialog_ratio == ratio], ["used_dialogs"], "pages").sort_values(
                "used_dialogs"
            )
            spread = [points["mean"] - points["min"], points["max"] - points["mean"]]
            ax.errorbar(
                points.used_dialogs,
                points["mean"],
                yerr=spread if (points["max"] > points["min"]).any() else None,
                elinewidth=0.9,
                markeredgecolor="white",
                label=RATIO_WORDS.get(ratio, f"dialog ratio {ratio}"),
                **cycle_entry(STYLES.get(ratio, 1)),
            )
        ax.set_xlim(0, most * 1.04)
        ax.set_ylim(0, most * 1.08)
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_locator(MaxNLocator(integer=True))
        ax.set_title(f"{version}: {_sequence_words(rows)}")
        ax.set_xlabel("used dialogs of an initiator (its client threads)")
    panels[0].set_ylabel("pages of sys.sysdesend that hold them")
    panels[0].legend(loc="upper left")
    subtitle = " ".join([*told, _paper()])
    fig.entitle("Pages of sys.sysdesend that hold the used dialogs", subtitle, page_spread)
    return fig


def sentences(page_spread: pd.DataFrame) -> list[str]:
    """Describe the largest pools, a sentence per dialog ratio; raises Missing if no page was read."""
    if page_spread.empty:
        raise Missing("the pages of the dialogs were not read (that needs the dedicated administrator connection)")
    told = []
    for ratio in sorted(page_spread.dialog_ratio.unique()):
        rows = page_spread[page_spread.dialog_ratio == ratio]
        largest = rows[rows.used_dialogs == rows.used_dialogs.max()]
        dialogs = used_dialogs(ratio).capitalize()
        sharing, used = largest.dialogs_sharing_a_page, int(largest.used_dialogs.iloc[0])
        if sharing.max() == 0:
            words = "none shares its page with another"
        elif sharing.min() == used:
            words = f"all share their page with others (up to {largest.dialogs_per_page_max.max()} on one)"
        else:
            words = (
                f"{_range(sharing)} share their page with others (up to {largest.dialogs_per_page_max.max()} on one)"
            )
        told.append(
            f"{dialogs}: {used} dialog{'s lie' if used > 1 else ' lies'} on {_range(largest.pages)} "
            f"page{'s' * int(largest.pages.max() > 1)}{f', {words}' if used > 1 else ''}."
        )
    return told


def sequence_sentence(page_spread: pd.DataFrame) -> str:
    """Say by version whether handles ascend in the order in which dialogs were begun; empty if unknown."""
    known = page_spread.dropna(subset=["handles_sequential"])
    always = known.groupby("server_version").handles_sequential.agg(lambda values: bool(values.astype(bool).all()))
    parts = []
    for ascends, words in ((True, "ascend"), (False, "do not ascend")):
        versions = [str(version) for version, value in always.items() if value is ascends]
        if versions:
            parts.append(f"{words} in the order in which the dialogs were begun on {listed(versions)}")
    return f"Conversation handles {'; they '.join(parts)}." if parts else ""


def _sequence_words(rows: pd.DataFrame) -> str:
    known = rows.handles_sequential.dropna().astype(bool)
    if known.empty:
        return "order of handles unknown"
    return f"handles{'' if known.all() else ' not'} in the order of BEGIN DIALOG"


def _range(values: pd.Series) -> str:
    low, high = int(values.min()), int(values.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _paper() -> str:
    return (
        f"The paper: at most {SYSDESEND_ROWS_PER_PAGE} rows fit on a page, so every {TRICK_DIALOG_RATIO}th dialog has "
        "a page of its own."
    )
