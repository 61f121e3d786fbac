"""Settings of hypothesis for all tests, of threads for all processes, and the order of tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

# One process a core runs tests: a second thread of torch or of a linear algebra library would only wait, at full speed.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Commands play in the process of the test, unless a test asks for more.
os.environ.setdefault("GPUSCHED_WORKERS", "1")

# Tests must pass on slow and busy machines: no example has a deadline, and slow generation of examples is no error.
settings.register_profile(
    "any-speed",
    settings.default,
    deadline=None,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("any-speed")

# Their tests take longest: if one of them began last, the other processes would wait for it.
LONGEST = ("tests/portability/", "tests/docs/test_code.py", "tests/benchmarks/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))
