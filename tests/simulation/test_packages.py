"""What travels to a cluster."""

import pytest

from harness.simulation import packages


@pytest.mark.parametrize(
    "master, interpreter", [("local[*]", None), ("local-cluster[2,1,512]", None), ("spark://host:7077", "/opt/python")]
)
def test_nothing_travels_to_an_interpreter_that_has_the_packages(monkeypatch, master, interpreter):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if interpreter:
        monkeypatch.setenv("PYSPARK_PYTHON", interpreter)
    with packages.travelling(master) as settings:
        assert settings == {}
