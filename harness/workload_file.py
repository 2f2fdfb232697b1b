"""A workload as a TOML file beside its SQL files: what test clients call, and what the target does with a message.

```toml
about = "In one line: what the messages are, and what is done with them."

[client]
procedure = "dbo.SendMessage"     # every call of a client executes it once
parameters = ["handle", "body"]   # its parameters in their order, of those in PARAMETERS
think_time = "0s"                 # how long a client waits after a call, in the closed loop

[initiator]
scripts = ["send_message.sql"]    # run on every initiator in this order, after its queue, service and dialogs

[target]
scripts = ["receive_procedure.sql"]   # run on the target in this order, before its queue
activation_procedure = "dbo.SRPerf_Queue_LabTest"
receive_top = 10_000              # $(ReceiveTop) of its scripts
receive_timeout_ms = 3_000        # $(ReceiveTimeoutMs)
max_queue_readers = 16

[variables]                       # others of its scripts: $(WorkMs)
WorkMs = 5
```

`sql/workloads/` has those of the package, and says what a workload's procedures must do. `paper` is the default.
"""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from harness import toml_file
from harness.failures import UsageFailure, nearest
from harness.places import SQL_ROOT
from harness.toml_file import TomlFile
from harness.units import parse_duration

FOLDER = SQL_ROOT / "workloads"
FILE = "workload.toml"
PRESETS = tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE}")))
PAPER = "paper"

# What a client can pass to its procedure, with its type.
PARAMETERS = {
    "handle": "uniqueidentifier",  # the thread's dialog
    "broker_instance": "uniqueidentifier",  # that of the target, for a procedure that begins dialogs itself
    "body": "varbinary",  # the message, as varbinary(max)
    "initiator": "int",  # the number of the initiator, from 1
    "thread": "int",  # the number of the thread within the initiator, from 1
}
Parameter = Literal["handle", "broker_instance", "body", "initiator", "thread"]

_PROCEDURE = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
# The lab gives them to the workload's scripts.
_LABS_VARIABLES = ("Database", "Prefix", "Encryption", "ReceiveTop", "ReceiveTimeoutMs", "MaxQueueReaders")


class WorkloadError(UsageFailure):
    """A workload that there is not."""


def _procedure(name: str) -> str:
    if _PROCEDURE.fullmatch(name) is None:
        raise ValueError("not a procedure with its schema: write dbo.SendMessage")
    return name


def _parameters(names: tuple[Parameter, ...]) -> tuple[Parameter, ...]:
    if "body" not in names:
        raise ValueError("a client passes the message: name body among the parameters")
    if len(set(names)) < len(names):
        raise ValueError("a parameter is named twice")
    if ("handle" in names) == ("broker_instance" in names):
        raise ValueError("name handle, or broker_instance if the procedure begins its dialogs itself")
    return names


def _value(value: str | int) -> str | int:
    if "'" in str(value) or "\n" in str(value):
        raise ValueError("a value of a variable has no apostrophe and no line break")
    return value


def _variables(given: dict[str, str | int]) -> dict[str, str | int]:
    for name in given:
        if _VARIABLE.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a variable")
        if name.lower() in map(str.lower, _LABS_VARIABLES):
            raise ValueError(f"the variable {name} belongs to the lab: choose another name")
    return given


Procedure = Annotated[str, AfterValidator(_procedure)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Client(_Part):
    """What every call of a test client executes."""

    procedure: Procedure = "dbo.SendMessage"
    parameters: Annotated[tuple[Parameter, ...], AfterValidator(_parameters)] = ("handle", "body")
    think_time: Annotated[float, BeforeValidator(parse_duration), Field(ge=0, le=3600)] = 0.0  # seconds

    @property
    def begins_dialogs(self) -> bool:
        """Whether each message has a dialog of its own, so that no two of them have an order."""
        return "broker_instance" in self.parameters

    @property
    def call(self) -> str:
        """The text that ODBC executes.

        pyodbc binds parameters anew for each call, and Microsoft's driver therefore prepares anew: one round trip
        either way, but as an RPC (sp_prepexecrpc) without the T-SQL that EXEC (sp_prepexec) would carry. FreeTDS calls
        by name.
        """
        return f"{{CALL {self.procedure} ({', '.join('?' * len(self.parameters))})}}"


class Initiator(_Part):
    scripts: tuple[str, ...] = ()


class Target(_Part):
    """What the target does with messages."""

    scripts: tuple[str, ...] = Field(min_length=1, description="the SQL files that create the activation procedure")
    activation_procedure: Procedure = Field(description="the procedure that the target's queue activates")
    receive_top: Annotated[int, Field(ge=1)] = 10_000
    receive_timeout_ms: Annotated[int, Field(ge=0, le=600_000)] = 3_000  # changing it waits as long for readers to end
    max_queue_readers: Annotated[int, Field(ge=1, le=32767)] = 16


class _Document(_Part):
    about: str = ""
    client: Client = Client()
    initiator: Initiator = Initiator()
    target: Target
    variables: Annotated[dict[str, Annotated[str | int, AfterValidator(_value)]], AfterValidator(_variables)] = {}


class Workload(_Document):
    """A workload with its name, that of its folder; a manifest keeps all of it."""

    name: str
    folder: Path  # a preset's is relative to the harness's sql/
    digests: dict[str, str]  # of each SQL file: a run is resumed only with the same

    def __str__(self) -> str:
        return self.name

    def where(self, *key: str) -> str:
        """Return `workload.toml, line 7` for a key."""
        return toml_file.read(SQL_ROOT / self.folder / FILE, "workload file").where(*key)

    @property
    def script_variables(self) -> dict[str, str]:
        """The variables of its own scripts alone."""
        return {name: str(value) for name, value in self.variables.items()}

    @property
    def initiator_scripts(self) -> list[str]:
        """The files to run on every initiator, as `lab.scripts` takes them."""
        return [str(self.folder / script) for script in self.initiator.scripts]

    @property
    def target_scripts(self) -> list[str]:
        return [str(self.folder / script) for script in self.target.scripts]


def read(name: str) -> Workload:
    """The workload of a preset's name, or of the folder of a workload.toml; raises WorkloadError or TomlError."""
    path = SQL_ROOT / "workloads" / name / FILE if name in PRESETS else Path(name)
    if path.is_dir():
        path /= FILE
    if path.name != FILE:
        raise WorkloadError(
            f"unknown workload {name!r}{nearest(name, PRESETS)}; or name the folder of a {FILE}: harness workload new "
            "writes one"
        )
    toml = toml_file.read(path, "workload file")
    document = toml.validate(_Document)
    folder = path.parent.relative_to(SQL_ROOT) if name in PRESETS else path.parent.absolute()
    return Workload(name=path.absolute().parent.name, folder=folder, digests=_digests(toml, document), **dict(document))


@functools.cache
def paper() -> Workload:
    """The paper's workload: one message for each call, of which up to 10,000 are received at a time and stored."""
    return read(PAPER)


def _digests(toml: TomlFile, document: _Document) -> dict[str, str]:
    found = {}
    for table, scripts in (("initiator", document.initiator.scripts), ("target", document.target.scripts)):
        for place, script in enumerate(scripts):
            try:
                text = (toml.path.parent / script).read_bytes()
            except OSError as error:
                raise toml.error((table, "scripts", place), f"{script}: {error.strerror}") from None
            found[script] = hashlib.sha256(text).hexdigest()[:16]
    return found
