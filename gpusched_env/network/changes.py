"""Changes of link bandwidth at known times, for example because of other traffic or a failed spine switch."""

from __future__ import annotations

from dataclasses import dataclass

from gpusched_env.errors import ScenarioError, unknown_name
from gpusched_env.network.checks import check_number
from gpusched_env.network.topology import LINK_TIERS
from gpusched_env.support.units import LATEST_S


@dataclass(frozen=True)
class NetworkChange:
    """From ``time_s`` to the next change of the tier, its links have 1 / ``slowdown`` of the bandwidth in the topology.

    Parameters
    ----------
    time_s : time of the change [s]
    tier : a name in LINK_TIERS; in a leaf-spine topology, the uplinks of the racks are in tier "rack"
    slowdown : bandwidth in the topology / bandwidth from ``time_s`` on; 1 = the bandwidth in the topology
    """

    time_s: float
    tier: str = "rack"
    slowdown: float = 8.0

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number(self.time_s, "network.changes, time_s", most=LATEST_S)
        check_number(self.slowdown, "network.changes, slowdown")
        if self.tier not in LINK_TIERS:
            raise ScenarioError(f"network.changes, tier: {unknown_name('tier of links', str(self.tier), LINK_TIERS)}")
        if self.slowdown < 1.0:
            raise ScenarioError(
                f"network.changes, slowdown is {self.slowdown!r}: it must be at least 1; build the topology with the "
                "fastest rates that its links ever have, because ideal run times and lower bounds use them"
            )
