"""Changes of the network at known times: other traffic comes and goes, a spine fails."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.checks import check_number
from gpusched_env.network.topology import LINK_TIERS


@dataclass(frozen=True)
class NetworkChange:
    """From a time on, the links of a tier carry less.

    Parameters
    ----------
    time_s : when [s]
    tier : a name in LINK_TIERS; the links that leave the racks of a leaf-spine are those of "rack"
    slowdown : their bandwidth is that of the topology over this from then on; 1 = as built

    Raises
    ------
    ScenarioError : an unknown tier, a time before the start, or links faster than built
    """

    time_s: float
    tier: str = "rack"
    slowdown: float = 8.0

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number(self.time_s, "network.changes, time_s")
        check_number(self.slowdown, "network.changes, slowdown")
        if self.tier not in LINK_TIERS:
            raise ScenarioError(f"network.changes, tier: {unknown_name('tier of links', str(self.tier), LINK_TIERS)}")
        if self.slowdown < 1.0:
            raise ScenarioError(
                f"network.changes, slowdown is {self.slowdown!r}: it must be at least 1; build the topology with its "
                "fastest links, which ideal run times and lower bounds count on"
            )
