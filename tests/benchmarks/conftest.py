"""The benchmarks on a lab have one, and one set of test clients."""

from tests.warm_lab import warm_clients, warm_lab  # noqa: F401  fixtures
