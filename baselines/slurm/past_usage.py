"""Usage of tenants before a run is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PastUsage:
    """What tenants have used until a scheduler takes over a running cluster.

    Parameters
    ----------
    time_s : when it takes over [s]
    usage : name of a leaf of the tree of tenants -> its decayed usage at the end of the last period [GPU s]; missing
        leaves have used nothing
    recent : likewise its usage since then [GPU s]
    """

    time_s: float
    usage: Mapping[str, float] = field(default_factory=dict)
    recent: Mapping[str, float] = field(default_factory=dict)
