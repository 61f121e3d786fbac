"""Usage of tenants before a run is taken over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PastUsage:
    """What tenants have used when a scheduler takes over: decayed until the last period, and since then [GPU s]."""

    time_s: float
    usage: Mapping[str, float] = field(default_factory=dict)
    recent: Mapping[str, float] = field(default_factory=dict)
