"""What holds for all tests."""

from hypothesis import HealthCheck, settings

# Tests pass on a machine however slow or busy it is: no example has a deadline, nor may its making take too long.
settings.register_profile(
    "any-speed",
    settings.default,
    deadline=None,
    suppress_health_check=[*settings.default.suppress_health_check, HealthCheck.too_slow],
)
settings.load_profile("any-speed")
