"""Claims of the paper's abstract, each an "up to", in its simulator and on its traces (arXiv 2401.16492)."""

from __future__ import annotations

from typing import Final, NamedTuple


class Claim(NamedTuple):
    """A headline number.

    Parameters
    ----------
    what : the claim in words
    metric : our metric that is nearest to it
    change : best change [share], negative = less
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
