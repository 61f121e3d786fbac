"""Labels of the runs: the choices that the paper leaves open, and the parameters that its figures vary."""

from __future__ import annotations

import itertools
from typing import Any, Final, NamedTuple

from gpusched_env.reproduce.sjf_bco.published import SERVERS


class Setting(NamedTuple):
    """The choices that the paper leaves open: how a gang waits, and how strong contention and overhead are."""

    reading: str
    extra: float

    def __str__(self) -> str:
        """Heading of a column."""
        return f"{self.reading} {self.extra:.2f}"


SETTINGS: Final = tuple(Setting(*pair) for pair in itertools.product(("queue", "idle"), (0.15, 0.60)))
STRONG_QUEUE: Final = Setting("queue", 0.60)


def searched(setting: Setting, policy: str = "sjf-bco", servers: int = SERVERS[-1]) -> dict[str, Any]:
    """Labels of a run of figures 4 and 6: a policy as published, with theta and kappa found by search."""
    return {**setting._asdict(), "servers": servers, "policy": policy, "kappa": "search", "lambda": 1, "rule": "le"}


def fixed(setting: Setting, kappa: int, lambda_: int = 1, rule: str = "le") -> dict[str, Any]:
    """Labels of a run of figures 5 and 7: SJF-BCO with a given kappa on 20 servers."""
    return {**searched(setting), "kappa": kappa, "lambda": lambda_, "rule": rule}


# Not in the paper: plain queue orders with the placement rule "pack", which uses few machines per gang.
PLAIN: Final = {"fifo": "FIFO", "fifo-skip": "FIFO that skips", "sjf": "SJF by run time"}


def plain(extra: float, policy: str) -> dict[str, Any]:
    """Labels of a run of a plain queue order with best fit on 20 servers, to which the open choices do not apply."""
    return {"reading": "", "extra": extra, "servers": SERVERS[-1], "policy": policy}
