"""Service Broker itself: conversations, queues, transmission, activation, transactions. No SQL text, no wire, no I/O.

An `Engine` is one instance of SQL Server: it makes the parts and joins them, and callers use the parts. A `Database`
is one broker in it: a catalog, conversation endpoints and a transmission queue. Statements take the `Transaction` in
which they run. Those that change a catalog are functions (`ddl_*`); those that may wait (SEND, RECEIVE, END
CONVERSATION, ...: all take the lock of a conversation group) are methods of `sending`, `receiving` and `dialogs`, and
generators.

**What a transaction does.** Memory changes at once and every change leaves behind how to undo it. Durable changes are
staged and reach the store together at commit, in one group-committed flush. What others may see only then (messages
in a queue, rows in the transmission queue) is published when the flush is done. Locks of conversation groups are held
to the end. An endpoint that a transaction ends, moves or sets a timer on is marked as `changing` until that
transaction is over: frames that arrive for it meanwhile come again later.

**The way of a message.** SEND appends to the transaction. At commit `departure` asks `router` where the far side is.
In this instance: `local_delivery` puts it into the target queue in the same commit. Elsewhere: a row of the
transmission queue; `transmission` hands it to the transport after the flush and again after 4, 8, 16, 32, 64, 64, ...
seconds; `arrival` at the other instance accepts what came in one transaction, waits for its flush, then acknowledges;
the acknowledgement deletes the row, lazily. Sequence numbers make it exactly once, in order: a sequence number is
given in the transaction that stores the row, and the receiver's next number is stored with the message that has it. A
crash anywhere leaves either the row, which is sent again, or the message, whose repetition is recognised.

**Receiving.** `queues` keeps the available groups in a heap; `receiving` takes the first one's lock and rows.
`monitors` watch and launch readers through `Monitors.activate`, which T-SQL provides.

**On disk** (`recovery` reads it all back): `catalog.*`, one row an object; per database `endpoint` (what seldom
changes), `sysdesend` (the next sequence to send), `sysdercv` (the next to receive), `sysxmitqueue`, and one table for
each queue.

**Left out, deliberately:** cryptography (certificates are looked up and compared, nothing is encrypted),
fragmentation (a message is one frame), message forwarding, MIRROR_ADDRESS as a second address, the broker
configuration service, the built-in echo and diagnostic services, and permissions other than SEND and CONNECT.

Rules: no time, entropy, thread or asyncio but through `runtime`. Order is that of dicts, deques and heaps with serial
numbers, never of sets or addresses. An error of the caller is a `SqlServerError`; one of the far side is a `Refusal`
and travels as a negative code.
"""
