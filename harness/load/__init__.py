"""The test clients: Locust, with one native thread for each user.

The sweep sees `clients.Clients` and nothing else. Behind it stand one Locust master process and one Locust worker
process for each initiator, alive for a whole sweep; a worker stands for one test client computer and drives exactly one
initiator. Master runner, worker runners, user class, the distribution of users and the statistics are Locust's own.

**One thread, one client.** A Locust user owns a native thread for its whole life, with its own connection and its own
used dialog (`threads.ClientThread`). pyodbc blocks inside the driver, where gevent cannot switch, so the loop that
sends never comes back to the hub: it runs from the start of a cell to its stop, closed loop as in the paper, and
writes each call's start and latency into arrays that nobody else writes. It never logs, prints or takes a lock that
gevent has patched: under `monkey.patch_all` two logging threads stop each other for ever, and counts go missing
without an error. Workers therefore run with `LOCUST_SKIP_MONKEY_PATCH=1`, where threads, locks and time are the real
ones; only the hub (messages, heartbeats, statistics) is gevent's. The master keeps Locust's patches: it has no native
thread, and its web server is made for them. Measured against an echo server, native threads under the patches
(gevent's thread pool, or the original `start_new_thread`) are as fast, 62,000 calls/s with ten threads either way,
but in 2 of 40 starts they hung while connecting; unpatched, 60 starts of 50 threads each did not.
`tests/benchmarks/client.py` compares the whole with a bare loop of threads.

**Between cells** users stay: Locust starts or stops the difference (its `start` with a new count; never `stop`, which
waits in steps of a second). The thread of a stopped user is parked with its connection open and is taken up again by
the next user. A cell is four messages of Locust's own kind: `cell_prepare` (each thread has its connection and
its dialog's handle and waits), `cell_start`, `cell_stop`, and the workers' `cell_answer`; a question is asked again
until it is answered, and a worker that hears it twice does its work once.

**Secrets.** Connection strings go from the sweep's process to each worker through the worker's stdin. They pass neither
a command line nor Locust's network messages. They are those of a login that may execute the two send procedures and
nothing else; so nobody here looks up dialogs: their handles come with the plan.

**Endings.** Every process dies with its parent (`harness.lab.processes`). A worker or the master that dies is a
`LoadError` with its name and signal; the next `prepare` builds all of them anew. A thread that stays in a call after
`stop` is reported and left alone; its user gets a new one.

Modules: `plan` what goes in and comes out; `payload` a message's body; `threads` the client thread; `recorder` the
`calls` files; `health` whether the generator was the bottleneck; `statistics` Locust's, for its web interface; `users`,
`worker` a worker process; `messages`, `dispatch`, `master` the master process; `clients` all of it seen from the sweep;
`ui`, `web`, `scenario` the web interface for one scenario.
"""
