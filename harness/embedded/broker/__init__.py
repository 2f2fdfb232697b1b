"""Service Broker itself: conversations, queues, transmission, activation, transactions. No SQL text, no wire, no I/O.

An `Engine` is one instance of SQL Server: it makes and joins the parts, and callers use the parts. A `Database` is one
broker in it: a catalog, conversation endpoints and a transmission queue. Every statement takes its `Transaction`.
Statements that change a catalog are functions (`ddl_*`). Statements that may wait (SEND, RECEIVE, END CONVERSATION ...:
all lock a conversation group) are generators: methods of `dialogs` and `receiving`. A part takes the few parts that it
works with, and the `environment` for clock, store, platform and counters.

**What a transaction does.** Memory changes at once, and every change records how to undo it. Durable changes are
staged and reach the store together at commit, in one group-committed flush. Messages in a queue and rows in the
transmission queue are published when the flush is done. Locks of conversation groups are held to the end. An endpoint
that a transaction ends, moves or sets a timer on is marked as `changing` until the transaction is over: frames that
arrive for it meanwhile go back to the inbox at its end.

**The way of a message.** SEND appends to the transaction. At commit `departure` asks `router` where the far side is.
In this instance: it goes into the target queue in the same commit. Elsewhere: a row of the transmission queue;
`transmission` hands it to the transport after the flush and again after 4, 8, 16, 32, 64, 64, ...
seconds; `arrival` at the other instance accepts what came in one transaction, waits for its flush, then acknowledges;
the acknowledgement deletes the row, lazily. Sequence numbers make delivery exactly once, in order: the transaction that
stores the row also assigns its number, and the receiver's next number is stored together with the message. A crash
anywhere leaves either the row, which is sent again, or the message, whose duplicate is recognised.

**Receiving.** `queues` keeps the available groups in a heap; `receiving` locks the first one and takes its rows.
`monitors` watch and launch readers through `Monitors.activate`, which T-SQL provides.

**On disk** (`recovery` reads it back): `catalog.*`, one row per object; for each database `endpoint` (columns that
seldom change), `sysdesend` (the next sequence to send), `sysdercv` (the next to receive), `sysxmitqueue`, and one table
for each queue.

**Secrets.** `dialog_security` says which keys an encrypted dialog needs and seals its frames; `broker_link` says which
peers are welcome. What is computed is behind `keys`: nothing in virtual time, real cryptography in a server.

**Left out, deliberately:** fragmentation (a message is one frame), message forwarding, MIRROR_ADDRESS as a second
address, the built-in echo and diagnostic services, and permissions other than SEND and CONNECT.

Rules: time and entropy come from `runtime`; nothing here uses threads or asyncio. Order comes from dicts, deques and
heaps with serial numbers, never from sets or addresses. An error of the caller is a `SqlServerError`; an error of the
far side is a `Refusal` and travels as a negative code.
"""
