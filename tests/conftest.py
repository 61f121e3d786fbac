"""Settings of hypothesis for all tests, and of threads for all processes."""

import os

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
