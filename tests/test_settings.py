from pathlib import Path

import pytest

from harness.definitions.units import parse_duration
from harness.failures import UsageFailure
from harness.files import settings
from harness.files.settings import SettingsError
from harness.files.toml_file import TomlError


@pytest.mark.parametrize(
    "text, seconds", [("500ms", 0.5), ("1s", 1), ("2m", 120), ("1.5 s", 1.5), ("3", 3), (2, 2), ("1h", 3600)]
)
def test_durations_have_units(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


BAD = [
    ({"lab": "embeded"}, "--lab: unknown lab 'embeded'; nearest: embedded"),
    ({"measure": "soon"}, "--measure: invalid duration 'soon': write 500ms, 30s, 2m or 1h"),
    ({"measure": "1ms"}, "--measure: '1ms': input should be greater than or equal to 0.1"),
    ({"driver": "freetd"}, "--driver: 'freetd' is not valid; nearest: freetds"),
    ({"mesure": "1s"}, "--mesure: unknown key; nearest: measure"),
    ({"repeats": "0"}, "--repeats: '0': input should be greater than or equal to 1"),
    ({"ratios": "1 0"}, "--ratios: '0': input should be greater than or equal to 1"),
    ({"ratios": ","}, "--ratios: value should have at least 1 item after validation, not 0"),
    ({"threads": "1,5000"}, "--threads: '5000': input should be less than or equal to 1000"),
    ({"initiators": "0"}, "--initiators: '0': input should be greater than or equal to 1"),
    ({"payloads": "20"}, "--payloads: '20' is less than the 32 bytes of a message's header"),
    ({"payloads": "4 TB"}, "--payloads: invalid size '4 TB': write 100 or 4KB"),
    ({"matrix": "trik"}, "unknown matrix 'trik'; nearest: trick; or name a TOML file, such as mine.toml"),
    ({"seed": "-1"}, "--seed: '-1': input should be greater than or equal to 0"),
]


@pytest.mark.parametrize("options, message", BAD)
def test_a_bad_setting_is_one_line_that_names_it_and_the_nearest(options: dict[str, str], message: str) -> None:
    with pytest.raises(UsageFailure) as caught:
        settings.create(options, environment={})
    assert str(caught.value) == message


def test_ratios_are_numbers_in_order_each_once() -> None:
    assert settings.create({"ratios": "150 1 50 1"}, environment={}).ratios == (1, 50, 150)
    assert settings.create({"ratios": "150,1, 50"}, environment={}).ratios == (1, 50, 150)


def test_the_command_line_beats_the_environment_which_beats_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('measure = "3s"\nsettle = "3s"\nseed = 3\n')
    result = settings.create(
        {"measure": "1s", "seed": None}, file=file, environment={"HARNESS_MEASURE": "2s", "HARNESS_SETTLE": "2s"}
    )
    assert (result.measure, result.settle, result.seed) == (1.0, 2.0, 3)


def test_an_unknown_setting_in_the_environment_is_named() -> None:
    with pytest.raises(SettingsError, match="unknown setting HARNESS_MESURE; nearest: HARNESS_MEASURE"):
        settings.create({}, environment={"HARNESS_MESURE": "1s"})


def test_a_missing_settings_file_names_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    with pytest.raises(TomlError, match=r"there is no settings file .*rum\.toml; nearest: run\.toml"):
        settings.create({}, file=tmp_path / "rum.toml", environment={})


def test_an_unknown_key_in_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text("sede = 1")
    with pytest.raises(TomlError, match=r"run\.toml, line 1: sede: unknown setting; nearest: seed"):
        settings.create({}, file=file, environment={})


def test_patterns_come_one_by_one_or_separated_by_spaces() -> None:
    assert settings.create({"cells": ("i1-*  i2-t5", "i3")}, environment={}).cells == ("i1-*", "i2-t5", "i3")


def test_the_passwords_of_all_servers_are_no_settings() -> None:
    secrets = {f"HARNESS_PASSWORD_{side}": "x" for side in ("TARGET", "INITIATOR_1", "INITIATOR_16")}
    assert settings.create({}, environment=secrets) == settings.create({}, environment={})
    with pytest.raises(SettingsError, match="unknown setting HARNESS_PASSWORD_INITIATOR_17"):
        settings.create({}, environment={"HARNESS_PASSWORD_INITIATOR_17": "x"})


def test_children_inherit_no_setting() -> None:
    assert not [key for key in settings.child_environment({}) if key.startswith("HARNESS_")]
    assert settings.child_environment({"HARNESS_SA_PASSWORD": "x"})["HARNESS_SA_PASSWORD"] == "x"


BAD_OF_SIMULATIONS = [
    ({"seed": "x"}, "--seed: 'x': input should be a valid integer, unable to parse string as an integer"),
    (
        {"master": "lokal"},
        "--master: invalid Spark master 'lokal': write local[*], local[4], spark://host:7077 or yarn",
    ),
    ({"settle": "soon"}, "--settle: invalid duration 'soon'"),
    ({"sede": "1"}, "--sede: unknown key; nearest: seed"),
]


@pytest.mark.parametrize("options, message", BAD_OF_SIMULATIONS)
def test_a_bad_setting_of_a_simulation_is_one_line_too(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings.create_simulation(options, environment={})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("master", ["local", "local[*]", "local[4]", "local[4,2]", "local-cluster[2,1,512]", "yarn"])
def test_spark_masters_are_accepted(master: str) -> None:
    assert settings.create_simulation({"master": master}, environment={}).master == master


def test_settings_in_the_environment_that_belong_to_the_other_kind_of_run_are_ignored() -> None:
    environment = {"HARNESS_LAB": "embedded", "HARNESS_DRIVER": "freetds", "HARNESS_HARDWARE": "mine.toml"}
    simulated = settings.create_simulation({}, environment=environment)
    assert (simulated.lab, simulated.hardware) == ("simulated", "mine.toml")
    assert settings.create({}, environment=environment).driver == "freetds"


@pytest.mark.parametrize("option", ["workload", "dialog_security"])
def test_an_option_of_servers_does_not_go_with_the_simulated_lab(option: str) -> None:
    words = f"--{option.replace('_', '-')} does not go with the simulated lab: leave it out"
    with pytest.raises(SettingsError, match=words):
        settings.create_simulation({option: "fan-in"}, environment={})


def test_a_think_time_does_not_go_with_an_open_loop(tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    target = '[target]\nscripts = ["a.sql"]\nactivation_procedure = "dbo.Receive"\n'
    (folder / "workload.toml").write_text(f'[client]\nthink_time = "5ms"\n{target}')
    (folder / "a.sql").write_text("")
    chosen = settings.create({"workload": str(folder)}, environment={})
    assert chosen.workload.client.think_time == 0.005
    with pytest.raises(SettingsError, match="--workload: the clients of orders have a think time"):
        settings.create({"workload": str(folder), "rate": "5/s"}, environment={})


@pytest.fixture
def sized(tmp_path: Path) -> str:
    """The folder of a workload whose bodies have 100 or 500 bytes."""
    folder = tmp_path / "orders"
    folder.mkdir()
    target = '[target]\nscripts = ["a.sql"]\nactivation_procedure = "dbo.Receive"\n'
    (folder / "workload.toml").write_text(f"{target}[body]\nsize = {{histogram = [[100, 3], [500, 1]]}}\n")
    (folder / "a.sql").write_text("")
    return str(folder)


def test_the_cells_of_a_workload_with_sizes_of_its_own_have_their_mean_as_payload(sized: str) -> None:
    chosen = settings.create({"workload": sized, "threads": "1,2"}, environment={})
    assert chosen.axes.given() == {"threads": (1, 2), "payloads": (200,)}
    assert not settings.create({"workload": sized}, environment={}).is_whole_paper
    stored = settings.Settings(**chosen.model_dump(mode="json"))
    assert stored == chosen, "a run can be resumed"


def test_payloads_do_not_go_with_sizes_of_ones_own(sized: str) -> None:
    with pytest.raises(
        SettingsError, match=r"--workload: the bodies of orders have sizes of their own .* leave --payl"
    ):
        settings.create({"workload": sized, "payloads": "100"}, environment={})
