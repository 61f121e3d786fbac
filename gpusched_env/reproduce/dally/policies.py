"""The policies that are compared: the variants of Dally, and its rivals."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gpusched_env.reproduce.dally.cells import Conditions


class Policy(NamedTuple):
    """A scheduler and its name in tables."""

    heading: str
    spec: str


VARIANTS: Final = {
    "no-wait": Policy("no wait", "dally-no-wait"),
    "manual-1-2": Policy("manual 1/2 leases", "dally-manual:rack_wait=1,nw_wait=2"),
    "manual-6-12": Policy("manual 6/12 leases", "dally-manual"),
    "dally": Policy("Dally (tuned)", "dally"),
    "no-preemption": Policy("tuned, no preemption", "dally-no-preempt"),
    "learned": Policy("learned timers", "dally:tuner=learned"),
    "consolidated": Policy("fully consolidated", "dally-fully-consolidated"),
}
RIVALS: Final = {
    "tiresias": Policy("Tiresias", "tiresias"),
    "tiresias-packs": Policy("Tiresias, packlimit 0", "tiresias:packlimit=0"),  # consolidates every model
    # With its default of one minute, half of each slice would be lost to preemptions of 30 s + 30 s.
    "gandiva": Policy("Gandiva-lite, 20 min", "gandiva-lite:quantum_s=1200,migrate_s=1200"),
    "themis": Policy("Themis-lite, 1 h", "themis-lite:lease_s=3600"),  # the length of Dally's leases
    "fifo": Policy("FIFO", "fifo"),
    "srtf": Policy("SRTF", "srtf"),
    "yarn": Policy("YARN-CS", "yarn-cs"),
    "zaharia": Policy("delay (Zaharia)", "delay-zaharia"),
}
POLICIES: Final = VARIANTS | RIVALS
FEW: Final = (*VARIANTS, "tiresias")
ASC, HASH = ORDERS = ("asc", "hash")  # orders in which the variants of Dally visit machines


def labels(cell: Conditions, policy: str, order: str = ASC) -> dict[str, Any]:
    """Labels of a policy's runs in a cell; the order of a rival is empty."""
    return {**cell.labels, "policy": policy, "order": "" if policy in RIVALS else order}


def spec(policy: str, order: str = ASC, **more: float) -> str:
    """Return a policy's spec for :func:`gpusched_env.baselines.make_scheduler`; ``more`` = further parameters."""
    return add_parameters(POLICIES[policy].spec, ({} if order == ASC else {"order": order}) | more)


def add_parameters(written: str, more: dict[str, Any]) -> str:
    """Add parameters to a spec."""
    name, _, given = written.partition(":")
    parts = [*([given] if given else []), *(f"{key}={value}" for key, value in more.items())]
    return f"{name}:{','.join(parts)}" if parts else name
