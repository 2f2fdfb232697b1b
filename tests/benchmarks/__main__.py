"""`make bench`: every benchmark in turn. They print what they measured; none of them fails because it was slow.

`python -m tests.benchmarks.NAME` runs one of them. `SMALLEST` is the size at which the tests run them.
"""

from tests.benchmarks import (
    activator,
    attack,
    broker,
    client,
    inference,
    linked,
    monitors,
    mutation,
    observer,
    reduction,
    simulation,
    stall,
    sweep,
    tds,
    workload_layer,
)

BENCHMARKS = (
    *(inference, client, workload_layer, sweep, observer, monitors, activator, stall),
    *(tds, broker, reduction, simulation, attack, linked, mutation),
)


def main() -> None:
    for benchmark in BENCHMARKS:
        benchmark.main()


if __name__ == "__main__":
    main()
