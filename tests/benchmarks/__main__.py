"""`make bench`: every benchmark in turn. They print what they measured; none of them fails because it was slow."""

from tests.benchmarks import broker, client, reduction, simulation, sweep, tds


def main() -> None:
    for benchmark in (client, sweep, tds, broker):
        benchmark.main()
    reduction.main([])
    simulation.main([])


if __name__ == "__main__":
    main()
