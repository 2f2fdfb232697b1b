"""`manifest.json`: the circumstances of a run, without secrets, to interpret its numbers and to resume it.

The types say what is read of it, wherever that is. Other keys may have any value, and most may be missing, as in the
run of an older harness.
"""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, TypeAdapter, ValidationError

from harness.definitions.load_model import Arrivals
from harness.files import json_file
from harness.files.message_bodies import Body
from harness.files.records import ResultsError

NAME = "manifest.json"
Facts = dict[str, Any]


class _Accounting(BaseModel):
    by: str | None = None


def _as_of_a_workload(body: Any) -> Any:
    try:
        return body and Body.model_validate(body)  # as the workload.toml is read: not strictly
    except ValidationError as invalid:
        raise ValueError(invalid.errors()[0]["msg"]) from None


class _Workload(BaseModel):
    name: str | None = None
    about: str | None = None
    body: Annotated[Any, AfterValidator(_as_of_a_workload)] = None
    accounting: _Accounting | None = None


class _Matrix(BaseModel):
    name: str | None = None


class _Settings(BaseModel):
    workload: _Workload | None = None
    matrix: _Matrix | None = None
    hardware: str | None = None
    repeats: int | None = None
    precision: float | None = None
    server_versions: list[str] | None = None


class _Machine(BaseModel):
    processor: str | None = None
    processors: int | None = None
    memory_mib: float | None = None


class _Fingerprint(BaseModel):
    system: Facts | None = None
    server: Facts | None = None
    log_storage: Facts | None = None


class _Instance(BaseModel):
    name: str
    lab_version: str | None = None
    fingerprint: _Fingerprint | None = None


class _Placement(BaseModel):
    shared: dict[str, str]
    processors: Facts


class _Finding(BaseModel):
    severity: str
    instance: str
    check: str
    text: str
    remedy: str


class _Parameter(BaseModel):
    value: float


class _Scenario(BaseModel):
    file: str | None = None  # a preset's name, or a path


class _Rates(BaseModel):
    arrivals: Arrivals


class _Manifest(BaseModel):
    run_id: str
    lab: str
    cells: int
    settings: _Settings
    instances: list[_Instance]
    findings: dict[str, list[_Finding]]
    load_model: str | None = None
    started_at: AwareDatetime | None = None
    finished_at: AwareDatetime | None = None
    git_commit: str | None = None
    harness_version: str | None = None
    machine: _Machine | None = None
    versions: Facts | None = None
    placement: dict[str, _Placement] | None = None
    model: dict[str, _Parameter] | None = None
    scenario: _Scenario | None = None
    rates: _Rates | None = None


_MANIFEST = TypeAdapter(_Manifest)


def read(results: Path) -> dict[str, Any]:
    """Return the manifest of a run; raises ResultsError if it is missing, and DamagedFile."""
    path = results / NAME
    if not results.is_dir():
        raise ResultsError(f"{results} does not exist: name the folder of a run")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ResultsError(f"{results} has no {NAME}: name the folder of a run") from None
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from None
    json_file.checked(_MANIFEST, data, path)
    manifest: dict[str, Any] = json.loads(data)
    return manifest
