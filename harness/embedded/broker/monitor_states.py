"""The states of a queue monitor, and the events that change them.

Quoted are "Understanding Queue Monitors" (R. Rusanu) and, as "the manual", "Understanding When Activation Occurs". The
table does not say when a reader is launched: `monitors.QueueMonitor` does.
"""

from enum import Enum, StrEnum, auto


class MonitorState(StrEnum):
    """sys.dm_broker_queue_monitors.state"""

    INACTIVE = "INACTIVE"  # "there are no messages available to be received in the monitored queue"
    NOTIFIED = "NOTIFIED"  # "messages are available and the activated procedure was launched into execution"
    RECEIVES_OCCURRING = "RECEIVES_OCCURRING"  # "the activated procedure is issuing RECEIVE"


class MonitorEvent(Enum):
    LAUNCHED = auto()  # the procedure, or the event notification was sent
    LEFT_TO_READERS = auto()  # a message became available, and readers run
    RECEIVE = auto()  # RECEIVE or GET CONVERSATION GROUP by any session
    EMPTIED = auto()  # a RECEIVE left nothing that can be received, or came back empty
    READERS_GONE = auto()  # the last reader ended
    TIME_OUT = auto()  # a program had its time to answer a notification, or a procedure that could not start is due


INACTIVE, NOTIFIED, RECEIVES_OCCURRING = MonitorState

_E = MonitorEvent

# A missing entry is a bug: a monitor that is NOTIFIED launches nothing.
TRANSITIONS: dict[tuple[MonitorState, MonitorEvent], MonitorState] = {
    # "The Queue Monitor will go into NOTIFIED state when an activated procedure was launched and will not launch again
    # any procedure until a RECEIVE statement is issued against the monitored queue."
    (INACTIVE, _E.LAUNCHED): NOTIFIED,
    # One more reader for a queue that is received from: RECEIVE statements go on.
    (RECEIVES_OCCURRING, _E.LAUNCHED): RECEIVES_OCCURRING,
    # The manual launches at once only if "there are no activation stored procedures running for the queue".
    (INACTIVE, _E.LEFT_TO_READERS): RECEIVES_OCCURRING,
    # "Any connection that executes a RECEIVE while the Queue Monitor is in NOTIFIED state will cause the Queue Monitor
    # to enter the RECEIVES_OCCURING state."
    (NOTIFIED, _E.RECEIVE): RECEIVES_OCCURRING,
    (RECEIVES_OCCURRING, _E.RECEIVE): RECEIVES_OCCURRING,
    (INACTIVE, _E.RECEIVE): INACTIVE,
    # "The Queue Monitor will go back to INACTIVE state when there are no more messages ready to be received."
    (RECEIVES_OCCURRING, _E.EMPTIED): INACTIVE,
    (INACTIVE, _E.EMPTIED): INACTIVE,
    # This RECEIVE began to wait before the launch, so it is not the one that the monitor waits for.
    (NOTIFIED, _E.EMPTIED): NOTIFIED,
    # "All stored procedures started by the queue monitor exit" is an occasion to launch for the manual ...
    (RECEIVES_OCCURRING, _E.READERS_GONE): INACTIVE,
    (INACTIVE, _E.READERS_GONE): INACTIVE,
    # ... but a procedure that ends without a RECEIVE "stays in that state": it would be launched for ever.
    (NOTIFIED, _E.READERS_GONE): NOTIFIED,
    # "Once an application calls RECEIVE on the queue or the time-out expires, Service Broker creates another event
    # notification if activation is required": the manual.
    (NOTIFIED, _E.TIME_OUT): INACTIVE,
    (RECEIVES_OCCURRING, _E.TIME_OUT): INACTIVE,
    (INACTIVE, _E.TIME_OUT): INACTIVE,
}
