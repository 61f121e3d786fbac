"""The claims of the paper's abstract (arXiv 2401.16492).

Each claim is an "up to" value, from the paper's simulator and traces.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Claim(NamedTuple):
    """A headline number of the abstract.

    Parameters
    ----------
    what : the claim in words
    metric : our metric that corresponds best to the claim
    change : relative change in the best case; negative = a reduction
    congested : whether the claim is about a congested network
    """

    what: str
    metric: str
    change: float
    congested: bool


CLAIMS: Final = (
    Claim("makespan", "makespan_s", -0.69, congested=False),
    Claim("average JCT", "mean_jct_s", -0.83, congested=False),
    Claim("communication under a congested network", "mean_communication_s", -0.98, congested=True),
)
