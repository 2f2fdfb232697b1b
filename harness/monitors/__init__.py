"""What lies in the queues of a SQL Server, what their monitors do, and why messages do not move.

- `state`: what a look has shown; `asking`, `reading`: one server, look by look, read-only and at little cost to it
- `explaining`: the reason for each queue whose messages stay, and the cure; `conversations`: for conversations that
  nobody ends; `ways`: for messages that wait for transmission, with the other side if it is looked at too, by what
  `harness.lab.statuses` says of a transmission status; `wording`: how they write times
- `showing`: tables and JSON; `metrics`: numbers for Prometheus; `as_sql`: the same questions as T-SQL; `watching`: the
  view that goes on when a database vanishes or the server stops answering

The tree of reasons is that of two articles: "Understanding Queue Monitors" (R. Rusanu, 2008) and the manual's
"Understanding When Activation Occurs". It creates nothing, and needs none of the harness's own objects.
"""
