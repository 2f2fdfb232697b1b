"""What travels to a cluster."""

from harness.reductions import packages


def test_nothing_travels_to_an_interpreter_that_has_the_packages(monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    with packages.travelling() as settings:
        assert settings == {}
