"""`make bench`: every benchmark in turn. They print what they measured; none of them fails because it was slow."""

from tests.benchmarks import client, reduction, sweep, tds


def main() -> None:
    for benchmark in (client, sweep, tds):
        benchmark.main()
    reduction.main([])


if __name__ == "__main__":
    main()
