"""What one look at a server has shown. None means not known: a right is missing, or it was not looked at yet."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields

from harness.files.script_text import quoted

READY, NOT_COMPLETE, RETAINED = 1, 2, (0, 3)  # status of a queue's rows
CONVERSATIONS_MAX = 200_000  # of a database: to read more of them by state takes a second or longer
LIFETIME_MAX_S = 2**31 - 1  # of a conversation, and its default: 68 years
THRESHOLD_S = 5.0  # of a queue monitor's timer: what lasts longer is no hesitation


@dataclass
class Monitor:
    """A row of sys.dm_broker_queue_monitors, with the number of readers that it has launched and that run."""

    state: str  # INACTIVE, NOTIFIED or RECEIVES_OCCURRING
    tasks_waiting: int
    readers: int
    last_activated_s: float | None  # seconds ago; None: never
    last_empty_rowset_s: float | None
    # How long it has been in this state, as far as it was watched; NOTIFIED at least since the last launch.
    since_s: float = 0.0


@dataclass
class Queue:
    """A queue: its definition, what lies in it, and what its monitor does."""

    schema: str
    name: str
    queue_id: int
    is_receive_enabled: bool
    is_enqueue_enabled: bool
    is_retention_enabled: bool
    is_poison_message_handling_enabled: bool
    is_activation_enabled: bool
    activation_procedure: str | None
    procedure_exists: bool
    execute_as: str | None  # OWNER or a user; None: nobody, or a user that does not exist
    max_readers: int | None
    notification: str | None  # of the event QUEUE_ACTIVATION
    notification_service: str | None
    notification_is_local: bool  # its service is that of this database's broker
    notification_service_exists: bool  # in this database
    rows: int | None = None
    statuses: dict[int, int] | None = None  # messages by status
    is_capped: bool = False  # a count of a status is the most that was looked at
    oldest_s: float | None = None
    in_per_s: float | None = None
    out_per_s: float | None = None
    still_s: float = 0.0  # how long no message has left the queue, as far as it was watched
    monitor: Monitor | None = None  # there is none, or it is not known: Server.knows_monitors
    log: list[str] = field(default_factory=list)  # the newest lines of the error log on its procedure
    procedure_receives: bool | None = None  # its procedure's text has RECEIVE and the queue's name
    receive_hints: list[str] = field(default_factory=list)  # what is slow in how that text receives
    procedure_hides_errors: bool = False  # a CATCH of that text rolls back and says nothing
    first_message: str = ""  # its type and sequence, of a RECEIVE that would come next
    first_handle: str = ""  # its conversation
    conversation_groups: int | None = None  # of its ready messages, as far as they were looked at
    error: str = ""  # code and text of the first Error message among them
    is_outdated: bool = False  # its monitor has come or gone since its definition was read

    @property
    def full_name(self) -> str:
        """[dbo].[Orders]"""
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def plain_name(self) -> str:
        """dbo.Orders, as the error log has it"""
        return f"{self.schema}.{self.name}"

    def define(self, other: Queue) -> None:
        """Take over another reading of the definition; what was watched stays."""
        for name in _DEFINITION:
            setattr(self, name, getattr(other, name))

    @property
    def ready(self) -> int | None:
        """Messages that could be received: every look counts all rows, and statuses are counted now and then."""
        if self.rows is None or self.statuses is None:
            return self.rows
        return max(0, self.rows - sum(count for status, count in self.statuses.items() if status != READY))

    @property
    def is_growing(self) -> bool:
        """More messages come than leave."""
        return bool(self.rows) and (self.in_per_s or 0.0) > (self.out_per_s or 0.0)

    @property
    def stands_still(self) -> bool:
        """Rows lie in it, and none has left it since it is watched."""
        return bool(self.rows) and self.still_s > 0


# The fields of a definition: those without a default.
_DEFINITION = tuple(one.name for one in fields(Queue) if one.default is MISSING and one.default_factory is MISSING)


@dataclass
class Waiting:
    """Rows of the transmission queue that have the same way and status."""

    from_service: str
    to_service: str
    to_broker_instance: str | None
    transmission_status: str
    messages: int
    oldest_s: float


@dataclass
class Conversations:
    """The conversation endpoints of a service that are in one state."""

    service: str
    state: str  # state_desc
    is_kept: bool  # CLOSED until their lifetime ends
    number: int
    first_lifetime: str  # the earliest end of a lifetime: the same at two looks, if that conversation stays
    first_ends_s: float  # seconds until then
    ends_soon: int  # whose lifetimes end within an hour
    read_at_s: float
    stays_s: float = 0.0  # how long that one has been there, as far as it was watched
    grows_s: float = 0.0  # how long their number has grown from look to look

    @property
    def kind(self) -> tuple[str, str, bool]:
        return self.service, self.state, self.is_kept

    @property
    def oldest_s(self) -> float | None:
        """How long ago the oldest began: it ends first, if their lifetime is the default."""
        age_s = LIFETIME_MAX_S - self.first_ends_s
        return age_s if 0 <= age_s < LIFETIME_MAX_S / 2 else None

    def follow(self, before: Conversations | None) -> None:
        """Take what is known from the look before."""
        if before is not None:
            passed_s = self.read_at_s - before.read_at_s
            self.stays_s = before.stays_s + passed_s if self.first_lifetime == before.first_lifetime else 0.0
            self.grows_s = before.grows_s + passed_s if self.number > before.number else 0.0


@dataclass
class Certificate:
    """A certificate on which connections or dialogs depend."""

    name: str
    purpose: str  # endpoint, peer or dialogs
    expiry_date: str  # UTC
    hours_left: int


@dataclass
class Route:
    """A route of a database that has not expired."""

    name: str
    service: str  # "": any
    broker_instance: str  # service_broker_guid; "": any
    address: str  # TCP://host:port, LOCAL or TRANSPORT


@dataclass
class Endpoint:
    """A server's Service Broker endpoint."""

    name: str
    state: str  # STARTED, STOPPED or DISABLED
    port: int


@dataclass
class Session:
    """A session that waits in a RECEIVE, or has a transaction open."""

    session_id: int
    host_name: str | None
    program_name: str | None
    login_name: str
    is_receiving: bool
    open_transactions: int
    activated_for: int | None  # the id of the queue

    def __str__(self) -> str:
        return f"session {self.session_id} ({self.program_name or 'no program name'} on {self.host_name or 'no host'})"


@dataclass
class Database:
    """A user database, or msdb with the queues of Database Mail."""

    database_id: int
    name: str
    is_broker_enabled: bool
    broker_instance: str  # service_broker_guid
    has_user: bool = True  # the login may use it
    is_owner: bool = True  # the login sees conversations and the transmission queue
    queues: list[Queue] = field(default_factory=list)
    transmission_rows: int | None = None
    conversation_rows: int | None = None
    transmission: list[Waiting] = field(default_factory=list)
    conversations: list[Conversations] | None = None
    sessions: list[Session] | None = None
    services: dict[str, int] = field(default_factory=dict)  # name → id of its queue
    routes: list[Route] | None = None
    certificates: list[Certificate] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # what could not be read, with the remedy

    @property
    def is_system(self) -> bool:
        return self.name == "msdb"

    @property
    def shown_name(self) -> str:
        return f"{self.name} (the system's)" if self.is_system else self.name

    @property
    def reason(self) -> str:
        """The commonest status of the transmission queue."""
        if not self.transmission_rows or not self.transmission:
            return ""
        return max(self.transmission, key=lambda waiting: waiting.messages).transmission_status or "no status yet"


@dataclass
class Server:
    """A server at one moment."""

    name: str
    address: str
    databases: list[Database] = field(default_factory=list)
    knows_monitors: bool = True
    endpoint: Endpoint | None = None  # there is none, or it is not known
    certificates: list[Certificate] = field(default_factory=list)  # of master
    refusals: list[str] = field(default_factory=list)  # of other servers: the newest lines of the error log
    problems: list[str] = field(default_factory=list)
    cost_s: float = 0.0  # the server's time for this look
