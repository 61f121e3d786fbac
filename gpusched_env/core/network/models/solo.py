"""No contention: every gang communicates as if it were alone."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import OWN, contention_model
from gpusched_env.core.state import Run


@contention_model("none", "every gang communicates as if it were alone", reach=OWN)
@kernel(lazy=True)
def price_alone(sim: Run, number: int) -> None:
    """Do nothing, because the iteration time was computed at the start of the gang."""
