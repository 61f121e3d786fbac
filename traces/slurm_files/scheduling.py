"""Partitions and parameters of the scheduler, from the keys of slurm.conf."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from gpusched_env.traces.parsing.fields import Place
from gpusched_env.traces.parsing.slurm_fields import UNLIMITED, UNTOLD, span_s
from gpusched_env.traces.slurm_files.description import SlurmPartition, SlurmScheduling
from gpusched_env.traces.slurm_files.facts import Facts, PartitionFacts

FACTORS: Final = ("age", "assoc", "fairshare", "jobsize", "partition", "qos")


def limit_s(place: Place, field: str, text: str) -> float | None:
    """Return a time limit [s]; inf = unlimited, None = not set."""
    if text.upper() in UNLIMITED:
        return math.inf
    return None if text.upper() in {word.upper() for word in UNTOLD} else span_s(place, field, text)


def partition_of(facts: Facts, told: PartitionFacts) -> SlurmPartition:
    """Return a partition from its keys."""
    place, pairs = told.place, told.pairs
    longest = limit_s(place, "MaxTime", pairs.get("maxtime", "UNLIMITED"))
    tier = pairs.get("prioritytier", pairs.get("priority", "1"))
    return SlurmPartition(
        pairs["partitionname"],
        facts.nodes_of(told),
        math.inf if longest is None else longest,
        limit_s(place, "DefaultTime", pairs.get("defaulttime", "NONE")),
        place.whole("PriorityTier", tier, "tier"),
        place.whole("PriorityJobFactor", pairs.get("priorityjobfactor", "1"), "factor"),
        pairs.get("default", "").upper() == "YES",
        pairs.get("state", "UP").upper(),
        pairs.get("preemptmode", "").upper(),
        place.seconds("GraceTime", pairs.get("gracetime", "0")),
        pairs,
    )


def scheduling_of(facts: Facts) -> SlurmScheduling:
    """Return how jobs are ordered and started; what is not said has Slurm's default."""
    default = SlurmScheduling()
    told = facts.settings

    def text(key: str, otherwise: str) -> str:
        return told[key.lower()][1] if key.lower() in told else otherwise

    def seconds(key: str, otherwise: float) -> float:
        if key.lower() not in told:
            return otherwise
        found = limit_s(told[key.lower()][0], key, told[key.lower()][1])
        return otherwise if found is None else found

    def weight(key: str, otherwise: str = "") -> float:
        place, amount = told.get(key.lower(), (None, otherwise))
        return float(amount) if place is None else place.whole(key, amount, "weight")

    keys = {name: f"PriorityWeight{name}" for name in FACTORS}
    weights = {name: weight(key) for name, key in keys.items() if key.lower() in told}
    flags = text("PriorityFlags", "").upper()
    pairs = (entry.partition("=") for entry in text("SchedulerParameters", "").split(",") if entry.strip())
    return dataclasses.replace(
        default,
        backfill=text("SchedulerType", "sched/backfill").lower().removeprefix("sched/") == "backfill",
        parameters={name.strip().lower(): value.strip() for name, _, value in pairs},
        weights={name: value for name, value in weights.items() if value},
        tres_weights=_tres_weights(facts),
        priority_type=text("PriorityType", default.priority_type).lower(),
        priority_flags=tuple(flag.strip() for flag in flags.split(",") if flag.strip()),
        favor_small=text("PriorityFavorSmall", "NO").upper() == "YES",
        max_age_s=seconds("PriorityMaxAge", default.max_age_s),
        half_life_s=seconds("PriorityDecayHalfLife", default.half_life_s),
        calc_period_s=seconds("PriorityCalcPeriod", default.calc_period_s),
        preempt_type=text("PreemptType", default.preempt_type).lower(),
        preempt_mode=text("PreemptMode", default.preempt_mode).upper(),
        exempt_s=max(seconds("PreemptExemptTime", 0.0), 0.0),
        damping=weight("FairShareDampeningFactor", "1"),
        accounted=tuple(name.strip() for name in text("AccountingStorageTRES", "").lower().split(",") if name.strip()),
    )


def _tres_weights(facts: Facts) -> dict[str, float]:
    key = "PriorityWeightTRES"
    if key.lower() not in facts.settings:
        return {}
    place, text = facts.settings[key.lower()]
    weights = {}
    for entry in text.split(","):
        name, _, amount = entry.partition("=")
        weights[name.strip().lower()] = place.amount(key, amount, "weight")
    return weights
