"""Hardware files: what comes with the package, bounds, and every mistake in one line."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.failures import UsageFailure
from harness.files.toml_file import TomlError
from harness.simulation import parameters
from harness.simulation.parameters import SECTIONS, WORKS, HardwareError

FOLDER = Path(parameters.__file__).parent / "hardware"
PAPER = (FOLDER / "paper.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["paper", "paper-clients", "this-machine"])
def test_every_value_in_the_package_has_a_source(name):
    hardware = parameters.read(name)
    assert hardware.name == name
    assert all(one.source for one in hardware.declared.values())
    assert 1 <= len(hardware.free) <= 8
    assert all(hardware.declared[key].low < hardware.declared[key].high for key in hardware.free)


def test_the_names_are_those_of_the_files():
    assert parameters.names() == ["paper", "paper-clients", "this-machine"]


def test_no_two_sections_share_a_name():
    keys = [key for model in SECTIONS.values() for key in model.model_fields]
    assert len(keys) == len(set(keys))


def test_every_kind_of_the_brokers_work_has_a_cost():
    costs = parameters.read("paper").processors
    assert all(getattr(costs, f"{work}_us") > 0 for work in WORKS)
    assert costs.send_us_per_kib > 0
    charged = {f"{work}{suffix}" for work in WORKS for suffix in ("_us", "_us_per_kib")}
    assert set(type(costs).model_fields) <= charged | {"count", "are_shared"}


def test_a_value_can_be_replaced_within_its_bounds():
    paper = parameters.read("paper")
    other = paper.with_values({"send_us": 410.5, "count": 4})
    assert (other.processors.send_us, other.processors.count, other.value("send_us")) == (410.5, 4, 410.5)
    assert paper.processors.send_us == paper.value("send_us") != 410.5
    assert other.latch == paper.latch
    assert other.with_values({"send_us": paper.value("send_us"), "count": 8}) == paper


@pytest.mark.parametrize(
    "values, line",
    [
        ({"send_us": 5000}, "hardware paper: processors.send_us: 5000 is out of bounds (100 to 700)"),
        ({"count": 2.5}, "hardware paper: processors.count: 2.5: input should be a valid integer"),
        ({"sendus": 1}, "hardware paper: no parameter 'sendus'; nearest: send_us"),
        ({"hold_us": float("nan")}, "hardware paper: latch.hold_us: nan is out of bounds (2 to 50)"),
    ],
)
def test_impossible_values_are_refused(values, line):
    with pytest.raises(HardwareError) as caught:
        parameters.read("paper").with_values(values)
    assert str(caught.value).startswith(line)


def test_parameters_cannot_be_changed_in_place():
    with pytest.raises(ValidationError):
        parameters.read("paper").latch.hold_us = 1.0


@pytest.mark.parametrize(
    "old, new, line",
    [
        ("value = 15,", "value = 99,", "latch.hold_us: 99 is out of bounds (2 to 50)"),
        ("[latch]", "[lach]", "lach: unknown key; nearest: latch"),
        ("hold_us = {", "hld_us = {", "latch.hld_us: unknown key; nearest: hold_us"),
        ("value = 15,", "vlue = 15,", "latch.hold_us.vlue: unknown key; nearest: value"),
        ("value = 15,", 'value = "15",', "latch.hold_us.value: '15': input should be a valid number"),
        ("value = 15,", "value = inf,", "latch.hold_us.value: inf: input should be a finite number"),
        ("[latch]", "[latch", "not valid TOML: expected"),
        ("[client]\n", "[other]\nx = 1\n[client]\n", "other: unknown key"),
    ],
)
def test_a_mistake_in_a_file_is_one_line_with_the_file_and_the_key(tmp_path, old, new, line):
    assert old in PAPER
    assert refusal(tmp_path, PAPER.replace(old, new, 1)).partition(": ")[2].startswith(line)


def refusal(folder: Path, text: str) -> str:
    """Return the error for a file with this text."""
    assert text != PAPER
    file = folder / "mine.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(TomlError) as caught:
        parameters.read(str(file))
    assert str(caught.value).startswith("mine.toml, line ")
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    "count dispatchers bytes_per_s bytes_per_flush flush_latency_us flushes_in_flight writes_in_flight bits_per_s".split(),  # noqa: SIM905
)
def test_counts_are_above_zero(tmp_path, name):
    line = refusal(
        tmp_path, re.sub(rf"(?m)^{name} = .*", f'{name} = {{ value = 0, low = 0, high = 9, source = "x" }}', PAPER)
    )
    assert re.fullmatch(rf"mine\.toml, line \d+: \w+\.{name}: 0.0: input should be greater than 0", line)


def test_no_write_of_the_log_ends_before_it_begins(tmp_path):
    spread = 'flush_latency_spread = { value = 1.5, low = 0, high = 2, source = "x" }'
    line = refusal(tmp_path, re.sub(r"(?m)^flush_latency_spread = .*", spread, PAPER))
    assert line.partition(": ")[2] == "log.flush_latency_spread: 1.5: input should be less than or equal to 1"


@pytest.mark.parametrize("low, high", [(0, 100), (15, 15)])
def test_free_parameters_have_bounds_above_zero(tmp_path, low, high):
    line = refusal(
        tmp_path,
        PAPER.replace(
            "hold_us = { value = 15, low = 2, high = 50,",
            f"hold_us = {{ value = 15, low = {low}, high = {high}, free = true,",
        ),
    )
    assert line.partition(": ")[2].startswith(f"latch.hold_us: free, but {low} to {high} leaves calibration no room")


@pytest.mark.parametrize("text", ["", "[client]\n", "client = 1\n", "[client]\nround_trip_us = 300\n"])
def test_an_incomplete_file_is_refused_with_what_is_missing(tmp_path, text):
    assert "missing" in refusal(tmp_path, text) or "must be a table" in refusal(tmp_path, text)


def test_missing_hardware_is_refused(tmp_path):
    with pytest.raises(UsageFailure, match=r"unknown hardware 'papr'; nearest: paper"):
        parameters.read("papr")
    with pytest.raises(UsageFailure, match=r"there is no hardware file .*x\.toml"):
        parameters.read(str(tmp_path / "x.toml"))
    with pytest.raises(UsageFailure, match=r"Is a directory"):
        parameters.read(str(tmp_path.with_suffix(".toml").mkdir() or tmp_path.with_suffix(".toml")))
    (tmp_path / "y.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageFailure, match=r"y\.toml: not UTF-8"):
        parameters.read(str(tmp_path / "y.toml"))


def test_a_users_file_is_read_by_its_path(tmp_path):
    file = tmp_path / "faster.toml"
    file.write_text(parameters.with_values_in(PAPER, {"flush_latency_us": 700}), encoding="utf-8")
    mine = parameters.read(str(file))
    assert (mine.name, mine.log.flush_latency_us) == ("faster", 700)


def test_a_manifest_holds_every_parameter():
    written = parameters.read("paper").as_manifest()
    assert written["processors.count"]["value"] == 8
    assert set(written["processors.count"]) == {"value", "low", "high", "source", "free"}
    assert len(written) == sum(len(model.model_fields) for model in SECTIONS.values())
