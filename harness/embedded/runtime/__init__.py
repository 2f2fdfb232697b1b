"""Tasks, waits and the clock: who runs next, and when.

A *task* is a generator that yields a `Wait` whenever it cannot go on. The `Scheduler` resumes tasks in a fixed order:
ready tasks first come, first served; timers by when they are due, then in the order in which they were set. It never
blocks, reads no clock of its own and knows no thread: a *driver* does. `realtime.RealTimeDriver` sits in an asyncio
loop; the virtual-time driver of the simulated lab jumps to the next deadline. No code above this package can tell which
one it is.

`yield signal.wait()` and `yield Delay(ns)` are all that other packages need; everything named `wait_...` or
returning a generator may yield, everything else never does. All durations are integer nanoseconds.
"""
