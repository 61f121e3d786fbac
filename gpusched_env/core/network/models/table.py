"""The rate of a gang is multiplied by the lowest of the user's pairwise ratios with the gangs on its machines."""

from __future__ import annotations

from gpusched_env.core.handle import kernel
from gpusched_env.core.network.contention import contention_model
from gpusched_env.core.network.flows import iteration_at
from gpusched_env.core.state import Run


@contention_model("table", "a gang runs at the lowest of the user's pairwise ratios with the gangs on its machines")
@kernel(lazy=True)
def price_by_pairs(sim: Run, number: int) -> None:
    """Set a gang's iteration time by the lowest ratio over the gangs on its ports."""
    r = sim.replicas[number]
    most = 0
    ratio = 1.0
    port = -1
    use = r["first_use"]
    while use >= 0:
        link = sim.uses[use]["link"]
        if sim.links[link]["port"] > 0:
            if sim.links[link]["flows"] > most:
                most = sim.links[link]["flows"]
                port = link
            other = sim.links[link]["first_use"]
            while other >= 0:
                beside = sim.uses[other]["replica"]
                if beside != number:
                    found = sim.ratios[r["profile"], sim.replicas[beside]["profile"]]
                    if found < ratio:
                        ratio = found
                        port = link
                other = sim.uses[other]["next_of_link"]
        use = sim.uses[use]["next_of_replica"]
    r["bottleneck"] = port if most > 1 else -1
    r["settled_s"] = iteration_at(sim, number, 1.0) / ratio
