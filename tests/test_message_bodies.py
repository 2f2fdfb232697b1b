"""The table [body] of a workload: distributions of sizes, templates, and mistakes in them."""

import math
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.definitions.matrix import PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN
from harness.failures import UsageFailure
from harness.files.message_bodies import Bodies, Body, read
from harness.files.toml_file import TomlFile

SIZES = st.integers(PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX)
RANGES = st.tuples(SIZES, SIZES).map(lambda ends: tuple(sorted(ends)))


def sizes_of(size: dict[str, Any], folder: Path = Path()) -> tuple[int, ...]:
    return read(TomlFile("", folder / "workload.toml"), Body.model_validate({"size": size})).sizes


@given(RANGES)
def test_uniform_sizes_lie_in_their_range_with_its_middle_as_mean(ends: tuple[int, int]) -> None:
    low, high = ends
    sizes = sizes_of({"uniform": ends})
    assert list(sizes) == sorted(sizes)
    assert low <= sizes[0] <= sizes[-1] <= high
    assert fmean(sizes) == pytest.approx((low + high) / 2, abs=1)


@given(st.integers(2_000, 20_000), st.floats(0.01, 0.7))
def test_lognormal_sizes_have_their_median_and_mean(median: int, sigma: float) -> None:
    sizes = sizes_of({"lognormal": {"median": median, "sigma": sigma}})
    assert sizes[len(sizes) // 2] == pytest.approx(median, rel=0.01)
    assert fmean(sizes) == pytest.approx(median * math.exp(sigma**2 / 2), rel=0.01)


def test_lognormal_sizes_are_cut_at_their_largest_and_at_the_header() -> None:
    sizes = sizes_of({"lognormal": {"median": 100, "sigma": 3.0, "max": 5000}})
    assert (sizes[0], sizes[-1]) == (PAYLOAD_BYTES_MIN, 5000)


@given(st.dictionaries(SIZES, st.floats(0.1, 10), min_size=1, max_size=8))
def test_each_size_of_a_histogram_has_its_share(histogram: dict[int, float]) -> None:
    sizes = sizes_of({"histogram": list(histogram.items())})
    for size, share in histogram.items():
        assert sizes.count(size) / len(sizes) == pytest.approx(share / math.fsum(histogram.values()), abs=0.001)


def test_samples_come_from_a_file_of_one_size_a_line(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("4 KB\n100\n\n100\n100\n")
    sizes = sizes_of({"samples": "sizes.csv"}, tmp_path)
    assert (sizes.count(100), sizes.count(4096)) == (3 * len(sizes) // 4, len(sizes) // 4)


@given(st.sampled_from([{"uniform": (32, 4000)}, {"histogram": ((32, 0.5),)}, {"samples": "a.csv"}, None]))
def test_a_manifest_keeps_the_table(size: dict[str, Any] | None) -> None:
    body = Body.model_validate({"template": "order.json", "size": size})
    assert Body.model_validate_json(body.model_dump_json()) == body


def test_bodies_without_sizes_have_those_of_the_cell() -> None:
    assert Bodies("text").of_payload(500).sizes == (500,)
    assert Bodies(sizes=(100, 200)).of_payload(500).sizes == (100, 200)
    assert (Bodies("text").mean_bytes, Bodies(sizes=(100, 200)).mean_bytes) == (None, 150)


def test_dialogs_are_warmed_up_by_texts_of_their_own() -> None:
    text = Bodies('["$$5", "$run-$initiator-${thread}-$sequence", "$filler"]').warm_up_text(run=9, initiator=2)
    assert text == '["$5", "9-2-0-${sequence}", ""]'


MISTAKES = [
    ("order.json", '{"a": "${filler}", "b": ${sequenc}}', "order.json, line 1: unknown placeholder 'sequenc'; nearest: sequence; write $$"),
    ("order.json", '{\n"price": "$ 5", "a": "${filler}"}', "order.json, line 2: a $ begins a placeholder: write $$"),
    ("order.json", '{"a": 1}', "workload.toml, line 1: body.template: order.json has ${filler} 0 times"),
    ("order.json", '["${filler}", "$filler"]', "workload.toml, line 1: body.template: order.json has ${filler} 2 times"),
    ("order.json", '{"a": "${filler}"\n"b": 1}', "order.json, line 2: no JSON with its placeholders replaced: "),
    ("order.json", '{"a": ${filler}}', "order.json, line 1: no JSON with its placeholders replaced: "),
    ("order.xml", "<a>\n<b>${filler}</a>", "order.xml, line 2: no XML with its placeholders replaced: mismatched tag"),
    ("order.xml", '<?xml version="1.0" encoding="utf-8"?><a>${filler}</a>', "order.xml, line 1: clients pass text"),
]  # fmt: skip


@pytest.mark.parametrize("file, text, words", MISTAKES)
def test_a_mistake_in_a_template_is_one_line_with_file_and_line(
    tmp_path: Path, file: str, text: str, words: str
) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(UsageFailure, match=f"^{re.escape(words)}") as raised:
        read(TomlFile("", tmp_path / "workload.toml"), Body(template=file))
    assert "\n" not in str(raised.value)


def test_a_declared_utf_16_and_a_byte_order_mark_are_no_mistakes(tmp_path: Path) -> None:
    (tmp_path / "order.xml").write_text('\ufeff<?xml version="1.0" encoding="UTF-16"?><a>${filler}</a>', "utf-8")
    assert read(TomlFile("", tmp_path / "workload.toml"), Body(template="order.xml")).template.startswith("<?xml")


def test_a_size_shorter_than_the_template_is_refused(tmp_path: Path) -> None:
    (tmp_path / "order.json").write_text('{"order": "${initiator}-${thread}-${sequence}", "filler": "${filler}"}')
    body = Body.model_validate({"template": "order.json", "size": {"uniform": (80, 4000)}})
    with pytest.raises(UsageFailure, match=r"order.json alone has up to \d+ bytes, two a character: a body of 80"):
        read(TomlFile("", tmp_path / "workload.toml"), body)


@pytest.mark.parametrize(
    "text, words",
    [
        ("100\nmany\n", "line 2: invalid size 'many'"),
        ("100\n31\n", "line 2: '31': a body has 32 to 1,048,576 bytes"),
        ("3000 MB\n", "line 1: '3000 MB': a body has 32 to 1,048,576 bytes"),
        ("\n", "is empty: write one size a line"),
    ],
)
def test_a_mistake_in_samples_is_one_line_with_file_and_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "sizes.csv").write_text(text)
    with pytest.raises(UsageFailure, match=f"sizes.csv,? {words}"):
        sizes_of({"samples": "sizes.csv"}, tmp_path)
