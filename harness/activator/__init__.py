"""Activation from outside: programs of this machine, started when a queue needs readers.

The server says so with event notifications (QUEUE_ACTIVATION), which scripts of `sql/activation/` create. They arrive
in a queue of their own, which `harness activator` reads as Microsoft's External Activator does. It never touches the
watched queues: the programs that it starts receive from them. `config` describes the file that names queue and
programs.

- `roster` decides what to start, without any I/O: at most `max` processes of a queue and at least `min`; a notification
  asks for one more; what crashes is started again after a pause, which doubles up to a minute.
- `notifications` reads the queue. The RECEIVE and what it asks for are one transaction: it is committed after the
  processes have been started. So an activator that is killed leaves the notification in the queue. Its processes die
  with it (`lab.processes`), and what they had received returns to the queue.
- `supervisor` runs both in one thread, the main one, because children die with the thread that started them.
- `reader` is a program to start: the paper's activation procedure outside the server.

Until somebody receives from the watched queue, a server sends its next notification only after a time-out. The manual
does not say how long that is, and another source knows of no such notification at all. A process that was killed before
its first RECEIVE could therefore leave the queue alone for long. So each start of the activator starts one process for
each queue; where it finds nothing, it ends.

Two activators of one queue would start twice as many: each holds an application lock as long as it is connected.
"""
