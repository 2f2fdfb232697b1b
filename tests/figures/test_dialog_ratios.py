"""The gain by dialog ratio: drawn only where there are more ratios than the paper's two."""

import pytest
from matplotlib import style

from harness.definitions.matrix import all_cells
from harness.figures.build import STYLE, drawings
from harness.figures.dialog_ratios import by_ratio
from harness.figures.reduced_run import Missing, read
from tests.results_fixture import write_reduced

pytestmark = pytest.mark.drawing

RATIOS = (1, 50, 144, 150)


def run(tmp_path, ratios, blocks=2):
    cells = [cell for cell in all_cells(("2008",), ratios=ratios) if cell.initiators == 1 and cell.threads in (5, 20)]
    return read(write_reduced(tmp_path / "run", cells, blocks=blocks))


def test_the_two_ratios_of_the_paper_have_no_figure_of_their_own(tmp_path):
    assert "gain-by-ratio" not in drawings(run(tmp_path, (1, 150)))


def test_the_busiest_load_is_drawn_at_every_ratio(tmp_path):
    found = run(tmp_path, RATIOS)
    with style.context(STYLE):
        sheet = drawings(found)["gain-by-ratio"]()
    assert "1 initiator × 20 threads" in sheet.title
    lines = [line for line in sheet.axes[0].lines if len(line.get_xdata()) == len(RATIOS) - 1]
    assert len(lines) == 4
    assert list(lines[0].get_xdata()) == [50, 144, 150]
    assert sheet.axes[0].get_legend() is None, "it could cover data"
    assert [end.name for end in sheet.line_ends] == ["100 bytes", "1 KB", "4 KB", "8 KB"]
    assert "2 runs, no interval." in sheet.subtitle
    with pytest.raises(Missing):
        by_ratio(found.gain.assign(valid=False))


def test_the_gain_of_a_ratio_has_the_interval_of_its_blocks_and_the_noise_beside_it(tmp_path):
    found = run(tmp_path, RATIOS, blocks=3)
    with style.context(STYLE):
        sheet = drawings(found)["gain-by-ratio"]()
    (ax,) = sheet.axes
    assert "Points: geometric means over 3 blocks; bars: 95 % intervals of the blocks." in sheet.subtitle
    assert [container.has_yerr for container in ax.containers] == [True] * 4
    assert "noise: 95 % of single pairs without a gain" in [text.get_text() for text in ax.texts]
