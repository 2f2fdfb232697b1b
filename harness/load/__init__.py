"""The test clients: Locust, with one native thread for each user.

The sweep sees only `locust_clients.LocustClients`. Behind it run one Locust master process and one Locust worker
process for each initiator, alive for a whole sweep; a worker is one test client computer and drives exactly one
initiator. Master runner, worker runners, user class, the distribution of users and the statistics are Locust's own, and
a worker is Locust's own command with `locustfile`, wherever it runs: the sweep's process starts those of this machine,
users those of others.

**One thread, one client.** A Locust user owns a native thread for its whole life, with its own connection and its own
used dialog (`threads.ClientThread`). pyodbc blocks inside the driver, where gevent cannot switch, so the loop that
sends never returns to the hub: it runs from the start of a cell to its stop, a closed loop as in the paper unless a
rate is asked for (`harness.definitions.load_model`). It writes each call's start and latency into arrays that nobody
else writes, and it never logs, prints or takes a lock that gevent has patched: under `monkey.patch_all` two logging
threads block each other for ever, and counts are lost without an error. Workers therefore run with
`LOCUST_SKIP_MONKEY_PATCH=1`, where threads, locks and time are the real ones; only the hub (messages, heartbeats,
statistics) is gevent's. The master runs with Locust's patches only where it serves the web page: the web server needs
them, and patching takes time. Measured against an echo server, native threads under the patches (gevent's thread pool,
or the original `start_new_thread`) are as fast, 62,000 calls/s with ten threads either way, but 2 of 40 starts hung
while connecting; unpatched, 60 starts of 50 threads each did not. `tests/benchmarks/client.py` compares all of it with
a bare loop of threads.

**Between cells** users stay: Locust starts or stops the difference (its `start` with a new count; never `stop`, which
waits in steps of a second). The thread of a stopped user is parked with its connection open, and the next user takes
it.

**Messages.** The sweep's process exchanges the typed `messages` with the master over the master's stdin and stdout, and
with each worker through the master, which passes them on as custom messages of Locust. A worker joins with its version
of the harness; another version is refused. A cell is `StartUsers` to the master, then `Prepare`, `Start` and `Stop` to
each worker, which reports `WorkerProgress` in between; then `Fetch` asks for the file of its calls, in pieces.

**Secrets.** Connection strings reach a worker in a message. They are on no command line, and all that goes between
master and workers is encrypted (`sealed_sockets`): who does not know HARNESS_TOKEN cannot join, send or read. A run
whose workers are all on this machine makes a token of its own. The login of a connection string may execute the
procedures of the lab's workload and nothing else; so test clients look up no dialogs: the plan has their handles.

**Endings.** Every process of this machine dies with its parent (`harness.lab.processes`). A worker or master that dies
is a `LoadError` with its name and signal; the next `prepare` starts all of them anew. After any other failure of a cell
its threads disconnect (`Disconnect`), and the processes go on with the next one. A worker of another machine that
leaves, or sends no heartbeat for ten seconds, is a `LoadError` with its machine's name; the next cell waits for
another. It ends with the run, or after a minute without the master. A thread that stays in a call after `stop` is
reported and abandoned; its user gets a new one.

Modules: `plan` a cell's plan, progress and report; `payload` a message's body, `bodies` those of a workload's own sizes
or template; `threads` the client thread, `seats` which user has which; `locustfile` what Locust runs, `worker` what it
does as a worker, `alone` what it does without a run, with `own_options`; `recorder` what Locust learns of calls;
`master` the master process, `locust_process` what it shares with workers, `sealed_sockets` their connections;
`messages` what goes between processes; `locust_clients` all of it seen from the sweep; `ui` one scenario by hand;
`pages` all pages, also that of a sweep.
"""
