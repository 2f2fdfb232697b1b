"""Tasks, waits and the clock: which task runs next, and when.

A *task* is a generator that yields a `Wait` whenever it cannot go on. The `Scheduler` resumes tasks in a fixed order:
ready tasks first come, first served; timers by due time, then in the order in which they were set. It never blocks and
has no clock or thread of its own: a *driver* runs it. `realtime.RealTimeDriver` runs it in an asyncio loop;
`virtual.VirtualDriver` jumps to the next deadline. Code above this package cannot tell which one it is.

Other packages need only `yield signal.wait()` and `yield Delay(ns)`. A function that is named `wait_...` or returns a
generator may yield; no other function does. All durations are integer nanoseconds.
"""
