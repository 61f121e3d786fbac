"""Settings of hypothesis for all tests."""

from hypothesis import HealthCheck, settings

# Tests must pass on slow and busy machines: no example has a deadline, and slow generation of examples is no error.
settings.register_profile(
    "any-speed",
    settings.default,
    deadline=None,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("any-speed")
