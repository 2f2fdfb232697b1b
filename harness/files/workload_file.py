"""A workload as a TOML file beside its SQL files: what test clients call, and what the target does with a message.

```toml
about = "In one line: what the messages are, and what is done with them."

[client]
procedure = "dbo.SendMessage"     # every call of a client executes it once
parameters = ["handle", "body", "Region"]   # its parameters in their order: of those in PARAMETERS and of values
values = {Region = "north"}       # what every call passes as further parameters, by their names without @
think_time = "0s"                 # how long a client waits after a call, in the closed loop
messages_per_transaction = 1      # calls that share a transaction of the client, which the last of them commits
direct_rpc = false                # true: Microsoft's driver calls the procedure by name, not by sp_prepexecrpc

[dialogs]
priority = 5                      # of the conversations, on both sides: 1 to 10; 5 is SQL Server's default
per_group = 1                     # dialogs in use that share a conversation group of the initiator

[both]
scripts = ["types.sql"]           # run on all instances first: further message types, a contract that has them

[initiator]
scripts = ["send_message.sql"]    # run on every initiator in this order, after its queue, service and dialogs

[target]
scripts = ["receive_procedure.sql"]   # run on the target in this order, before its queue
activation_procedure = "dbo.SRPerf_Queue_LabTest"
receive_top = 10_000              # $(ReceiveTop) of its scripts
receive_timeout_ms = 3_000        # $(ReceiveTimeoutMs)
max_queue_readers = 16
tables = "clustered"              # those of processed messages; or "heap": without a key
store_in_order = true             # $(StoreInOrder), 1 or 0: whether the paper's procedure stores with ORDER BY

[queue]
retention = false                 # of the queues of both sides; true begins new dialogs for each cell

[names]                           # of what the lab creates; $(MessageType), $(Contract), $(Queue), ... of all scripts
message_type = "//MySSB.com/Lab/M_Test"
contract = "//MySSB.com/Lab/C_Test"
initiator_service = "//MySSB.com/Lab/S_Test"
target_service = "//MySSB.com/Lab/S_Test"
initiator_queue = "dbo.MySSBLabTestQueue"
target_queue = "dbo.MySSBLabTestQueue"

[body]                            # optional: text or sizes of its own, see harness.files.message_bodies
size = {uniform = [200, 4000]}    # bytes
template = "order.json"           # text in place of bytes; its messages must be counted

[accounting]
by = "header"                     # or "count": the target stores nothing for the harness

[variables]                       # others of its scripts: $(WorkMs)
WorkMs = 5
```

`sql/workloads/` has those of the package, and says what a workload's procedures must do. `paper` is the default.
"""

import functools
import hashlib
import math
import os
import re
from collections.abc import Iterable, Mapping
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from harness.definitions.matrix import THREADS_MAX
from harness.definitions.units import parse_duration
from harness.failures import UsageFailure, nearest
from harness.files import message_bodies, script_text, toml_file
from harness.files.message_bodies import Bodies, Body
from harness.files.toml_file import Key, TomlFile
from harness.machine.places import SQL_ROOT

FOLDER = SQL_ROOT / "workloads"
FILE = "workload.toml"
PRESETS = tuple(sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE}")))
PAPER = "paper"

# What a client can pass to its procedure, with its type.
PARAMETERS = {
    "handle": "uniqueidentifier",  # the thread's dialog
    "broker_instance": "uniqueidentifier",  # that of the target, for a procedure that begins dialogs itself
    "body": "varbinary",  # the message, as varbinary(max); text of a template as one of TEXT_TYPES
    "initiator": "int",  # the number of the initiator, from 1
    "thread": "int",  # the number of the thread within the initiator, from 1
}
TEXT_TYPES = ("nvarchar", "xml")
_VALUE_CHARACTERS_MAX = 4000  # nvarchar(4000); drivers send longer text in other ways
Value = str | int | float | bool

DEFAULT_PRIORITY = 5  # of a conversation to which no broker priority applies

_PROCEDURE = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
# Names stand between brackets and between apostrophes in the lab's scripts, that of a queue as it is.
_NAME = re.compile(r"[^]'\x00-\x1f]+")
_QUEUE = re.compile(r"({part})\.({part})".format(part=r"[A-Za-z_]\w*|\[[^]['\x00-\x1f]+\]"))
_NAME_MAX = 128  # characters of a sysname
# The lab gives them to the workload's scripts.
_LABS_VARIABLES = (
    *("Database", "Prefix", "Encryption", "ReceiveTop", "ReceiveTimeoutMs", "MaxQueueReaders", "StoreInOrder"),
    *("MessageType", "Contract", "Service", "TargetService", "Queue"),
)


class WorkloadError(UsageFailure):
    """A workload that there is not."""


def _procedure(name: str) -> str:
    if _PROCEDURE.fullmatch(name) is None:
        raise ValueError("not a procedure with its schema: write dbo.SendMessage")
    return name


def _name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ValueError("not a name: it has characters, and neither an apostrophe nor a ] among them")
    if len(name) > _NAME_MAX:
        raise ValueError(f"a name of {len(name)} characters: at most {_NAME_MAX}")
    return name


def _queue(name: str) -> str:
    parts = _QUEUE.fullmatch(name)
    if parts is None:
        raise ValueError("not a queue with its schema: write dbo.OrderQueue, or dbo.[//Orders/Queue]")
    for part in parts.groups():
        _name(part.strip("[]"))
    return name


def _parameters(names: tuple[str, ...]) -> tuple[str, ...]:
    if "body" not in names:
        raise ValueError("a client passes the message: name body among the parameters")
    if len(set(names)) < len(names):
        raise ValueError("a parameter is named twice")
    if ("handle" in names) == ("broker_instance" in names):
        raise ValueError("name handle, or broker_instance if the procedure begins its dialogs itself")
    return names


def _passed(value: object) -> object:
    if isinstance(value, date | time):
        raise ValueError(f'write it in quotes: "{value.isoformat()}"')
    if not isinstance(value, str | int | float):  # a bool is an int
        raise ValueError("a value is text, a number, true or false")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("not a number that SQL Server has")
    return value


def _variables(values: dict[str, str | int]) -> dict[str, str | int]:
    for name in values:
        if _VARIABLE.fullmatch(name) is None:
            raise ValueError(f"{name!r} is no name of a variable")
        if name.lower() in map(str.lower, _LABS_VARIABLES):
            raise ValueError(f"the variable {name} belongs to the lab: choose another name")
    return values


Procedure = Annotated[str, AfterValidator(_procedure)]
Name = Annotated[str, AfterValidator(_name)]
QueueName = Annotated[str, AfterValidator(_queue)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Client(_Part):
    """What every call of a test client executes."""

    procedure: Procedure = "dbo.SendMessage"
    parameters: Annotated[tuple[str, ...], AfterValidator(_parameters)] = ("handle", "body")
    values: dict[str, Annotated[Value, BeforeValidator(_passed)]] = {}
    think_time: Annotated[float, BeforeValidator(parse_duration), Field(ge=0, le=3600)] = 0.0  # seconds
    messages_per_transaction: Annotated[int, Field(ge=1, le=100_000)] = 1
    direct_rpc: bool = False

    @property
    def begins_dialogs(self) -> bool:
        """Whether each message has a dialog of its own, so that no two of them have an order."""
        return "broker_instance" in self.parameters

    def __str__(self) -> str:
        passed = [f"{name} = {self.values[name]!r}" if name in self.values else name for name in self.parameters]
        return f"{self.procedure} ({', '.join(passed)})"

    @property
    def call(self) -> str:
        """The text that ODBC executes with all parameters bound.

        pyodbc binds parameters anew for each call, and Microsoft's driver therefore prepares anew: one round trip
        either way, but as an RPC (sp_prepexecrpc) without the T-SQL that EXEC (sp_prepexec) would carry. FreeTDS calls
        by name.
        """
        return self._call("?" * len(self.parameters))

    def call_on(self, handle: UUID) -> tuple[str, tuple[str, ...]]:
        """Return the text that ODBC executes on a dialog, or with a broker instance, and the parameters to bind.

        Microsoft's driver prepares no call that has a literal among its markers: it sends a direct RPC, which names the
        procedure (ODBC Driver 18, seen on the wire). The handle is that literal, as text, which the server converts.
        """
        if not self.direct_rpc:
            return self.call, self.parameters
        bound = tuple(name for name in self.parameters if name not in {"handle", "broker_instance"})
        return self._call("?" if name in bound else f"'{handle}'" for name in self.parameters), bound

    def _call(self, arguments: Iterable[str]) -> str:
        return f"{{CALL {self.procedure} ({', '.join(arguments)})}}"


class Dialogs(_Part):
    """The dialogs of a pool. Whether they are encrypted is a setting of the lab, `--dialog-security`."""

    priority: Annotated[int, Field(ge=1, le=10)] = DEFAULT_PRIORITY
    per_group: Annotated[int, Field(ge=1, le=THREADS_MAX)] = 1


class Both(_Part):
    """What both sides have in common. A message type and a contract of `Names` that a script creates are used."""

    scripts: tuple[str, ...] = ()


class Initiator(_Part):
    scripts: tuple[str, ...] = ()


class Queue(_Part):
    """The queues of both sides."""

    # Retained messages stay in the queue until their conversation ends: new dialogs are begun for each cell.
    retention: bool = False


class Receiving(_Part):
    """How the target's queue readers receive."""

    receive_top: Annotated[int, Field(ge=1)] = 10_000
    receive_timeout_ms: Annotated[int, Field(ge=0, le=600_000)] = 3_000  # changing it waits as long for readers to end
    max_queue_readers: Annotated[int, Field(ge=1, le=32767)] = 16

    @property
    def script_variables(self) -> dict[str, str]:
        """The variables of the workload's scripts and of target/activation.sql."""
        return {
            "ReceiveTop": str(self.receive_top),
            "ReceiveTimeoutMs": str(self.receive_timeout_ms),
            "MaxQueueReaders": str(self.max_queue_readers),
        }


class Target(Receiving):
    """What the target does with messages."""

    scripts: tuple[str, ...] = ()  # those that create the activation procedure, unless an existing database has it
    activation_procedure: Procedure = Field(description="the procedure that the target's queue activates")
    tables: Literal["clustered", "heap"] = "clustered"  # dbo.messageDrop and dbo.receiveCount
    store_in_order: bool = True

    @property
    def script_variables(self) -> dict[str, str]:
        return {**super().script_variables, "StoreInOrder": str(int(self.store_in_order))}


class Names(_Part):
    """What the message type and the contract are called, and each side's service and queue: by default as in the paper.

    A queue has its schema, and stands in scripts as it is written here.
    """

    message_type: Name = "//MySSB.com/Lab/M_Test"
    contract: Name = "//MySSB.com/Lab/C_Test"
    initiator_service: Name = "//MySSB.com/Lab/S_Test"
    target_service: Name = "//MySSB.com/Lab/S_Test"
    initiator_queue: QueueName = "dbo.MySSBLabTestQueue"
    target_queue: QueueName = "dbo.MySSBLabTestQueue"


class Accounting(_Part):
    """How the messages of a cell are accounted for: `harness.run.accounts`."""

    by: Literal["header", "count"] = "header"


class _Document(_Part):
    about: str = ""
    client: Client = Client()
    dialogs: Dialogs = Dialogs()
    both: Both = Both()
    initiator: Initiator = Initiator()
    target: Target
    queue: Queue = Queue()
    names: Names = Names()
    body: Body = Body()
    accounting: Accounting = Accounting()
    variables: Annotated[dict[str, str | int], AfterValidator(_variables)] = {}


class Workload(_Document):
    """A workload with its name, that of its folder; a manifest keeps all of it."""

    name: str
    folder: Path  # a preset's is relative to the harness's sql/
    digests: dict[str, str]  # of each file beside the workload.toml: a run is resumed only with the same

    def __str__(self) -> str:
        return self.name

    @property
    def given_as(self) -> str:
        """What --workload calls it: the name of one of the package, or its folder."""
        return str(self.folder) if self.folder.is_absolute() else self.name

    def where(self, *key: str) -> str:
        """Return `workload.toml, line 7` for a key."""
        return toml_file.read(SQL_ROOT / self.folder / FILE, "workload file").where(*key)

    def types_of(self, parameter: str) -> tuple[str, ...]:
        """The types that a parameter of the clients' procedure may have."""
        return TEXT_TYPES if parameter == "body" and self.body.template else (PARAMETERS[parameter],)

    @property
    def bodies(self) -> Bodies | None:
        """What clients make bodies of; None: bytes as many as the payload of their cell. Raises TomlError."""
        if self.body == Body():
            return None
        return message_bodies.read(toml_file.read(SQL_ROOT / self.folder / FILE, "workload file"), self.body)

    def require_payload(self, payload_bytes: int) -> None:
        """Raise WorkloadError unless its messages can have the payload of a cell."""
        bodies = self.bodies
        if bodies is None:
            return
        if (mean := bodies.mean_bytes) is not None and payload_bytes != mean:
            complaint = f"{self.where('body', 'size')}: the bodies of {self} have sizes of their own"
            raise WorkloadError(
                f"{complaint}: the payload of its cells is their mean, {mean} bytes, not {payload_bytes}"
            )
        if payload_bytes < (least := bodies.least_bytes):
            complaint = f"{self.where('body', 'template')}: a body of {self} has at least {least} bytes"
            raise WorkloadError(f"{complaint}: the payload of {payload_bytes} is too small")

    @property
    def script_variables(self) -> dict[str, str]:
        """The variables of its own scripts alone."""
        return {name: str(value) for name, value in self.variables.items()}

    @property
    def is_counted(self) -> bool:
        """Whether its messages are counted, because its procedure stores nothing by which to match them."""
        return self.accounting.by == "count"

    @property
    def both_scripts(self) -> list[str]:
        """The files to run on every instance before all others, as `lab.scripts` takes them."""
        return [str(self.folder / script) for script in self.both.scripts]

    @property
    def initiator_scripts(self) -> list[str]:
        """The files to run on every initiator."""
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
    _require_values(toml, document.client, ())
    if document.client.begins_dialogs and document.dialogs.per_group > 1:
        raise toml.error(("dialogs", "per_group"), "the client's procedure begins its dialogs itself: group them there")
    if document.queue.retention and document.accounting.by == "count":
        raise toml.error(
            ("queue", "retention"), "retained messages would count as not processed: account for them by header"
        )
    if document.target.tables == "heap" and document.accounting.by == "count":
        raise toml.error(("target", "tables"), "where messages are counted, the lab has no such tables: leave it out")
    digests = _digests(toml, document)
    message_bodies.read(toml, document.body)
    if document.body.template and document.accounting.by == "header":
        raise toml.error(("body", "template"), 'text has no header: write by = "count" in a table [accounting]')
    folder = path.parent.relative_to(SQL_ROOT) if name in PRESETS else path.parent.absolute()
    _require_used(toml, document, path.parent, ())
    return Workload(name=path.absolute().parent.name, folder=folder, digests=digests, **dict(document))


def changed(workload: Workload, changes: Mapping[str, Any], toml: TomlFile, at: Key) -> Workload:
    """The workload with other values, which a table of another file gives by the keys of a workload.toml.

    Its scripts stay; `at` is the key of that table. Raises TomlError.
    """
    values = workload.model_dump(include=set(_Document.model_fields))
    for section, change in changes.items():
        are_tables = isinstance(change, dict) and isinstance(values.get(section), dict)
        values[section] = {**values[section], **change} if are_tables else change
    document = toml.validate(_Document, values, at)
    _require_values(toml, document.client, at)
    files = (document.both, document.initiator, document.target.scripts, document.body.files)
    if files != (workload.both, workload.initiator, workload.target.scripts, workload.body.files):
        raise toml.error(at, "other scripts or files are another workload: name its folder under workload")
    _require_used(toml, document, SQL_ROOT / workload.folder, at)
    return workload.model_copy(update=dict(document))


@functools.cache
def paper() -> Workload:
    """The paper's workload: one message for each call, of which up to 10,000 are received at a time and stored."""
    return read(PAPER)


def _require_values(toml: TomlFile, client: Client, at: Key) -> None:
    """Raise TomlError unless each parameter is what clients pass or has a value, and each value is passed."""
    for place, name in enumerate(client.parameters):
        if name not in PARAMETERS and name not in client.values:
            valid = nearest(name, (*PARAMETERS, *client.values))
            text = f"{name!r} is not valid{valid}; any other parameter needs a value under [client.values]"
            raise toml.error((*at, "client", "parameters", place), text)
    for name in client.values:
        if name in PARAMETERS:
            text = f"clients pass a {name} of their own: leave it out"
        elif name not in client.parameters:
            text = "no parameter: name it in client.parameters too, in its place"
        elif len(str(client.values[name])) > _VALUE_CHARACTERS_MAX:
            text = f"longer than {_VALUE_CHARACTERS_MAX:,} characters"
        else:
            continue
        raise toml.error((*at, "client", "values", name), text)


def _require_used(toml: TomlFile, document: _Document, folder: Path, at: Key) -> None:
    """Raise TomlError for a variable that no script uses, which would change nothing, or that does not suit one."""
    scripts = (*document.both.scripts, *document.initiator.scripts, *document.target.scripts)
    texts = {script: (folder / script).read_text(encoding="utf-8", errors="replace") for script in scripts}
    used = {name: "0" for text in texts.values() for name in script_text.VARIABLE.findall(text)}
    for name, value in document.variables.items():
        try:
            for script, text in texts.items():
                script_text.substitute(text, used | {name: str(value)}, origin=script)
        except script_text.ScriptRefused as error:
            raise toml.error((*at, "variables", name), str(error)) from None
        if name.lower() not in map(str.lower, used):
            other_names = [other for other in used if other.lower() not in map(str.lower, _LABS_VARIABLES)]
            text = f"no script uses $({name}){nearest(name, other_names) if other_names else ': remove it'}"
            raise toml.error((*at, "variables", name), text)


def _digests(toml: TomlFile, document: _Document) -> dict[str, str]:
    """The digest of each file that a workload names. Raises TomlError for one that is missing or not in its folder."""
    folder = toml.path.parent.resolve()
    if folder.parent == FOLDER.resolve():  # workloads of the package share files
        folder = folder.parent
    files: list[tuple[Key, str]] = [*document.body.files]
    for table in ("both", "initiator", "target"):
        scripts = getattr(document, table).scripts
        files += [((table, "scripts", place), script) for place, script in enumerate(scripts)]
    digests = {}
    for key, file in files:
        try:
            place = Path(os.path.realpath(toml.path.parent / file))
            if Path(file).is_absolute() or not place.is_relative_to(folder):
                raise toml.error(key, f"{file} is outside of the workload's folder: copy it into that")
            digests[file] = hashlib.sha256(place.read_bytes()).hexdigest()[:16]
        except OSError as error:
            raise toml.error(key, f"{file}: {error.strerror}") from None
        except ValueError as error:  # a zero in it
            raise toml.error(key, f"{file!r}: {error}") from None
    return digests
