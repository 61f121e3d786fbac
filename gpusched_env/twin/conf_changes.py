"""What a policy would change in a site's slurm.conf, line by line, with the evidence for each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.errors import GpuschedError
from gpusched_env.metrics import bootstrap_ratio
from gpusched_env.portable import arrays
from gpusched_env.problem.workload import Workload
from gpusched_env.support.units import readable
from gpusched_env.traces.slurm_files.description import SlurmCluster
from gpusched_env.twin.fitting import BETTER, DAY_S
from gpusched_env.twin.model import Twin
from gpusched_env.twin.policies import parameters_of, with_parameters
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.scoring import off, replayed_starts

MINUTE_S: Final = 60.0
FLAGS: Final = {"bf_one_resv_per_job", "preempt_youngest_first"}
PREEMPT_TYPES: Final = {"off": "preempt/none", "tier": "preempt/partition_prio", "qos": "preempt/qos"}


def days(seconds: float) -> str:
    """Write a time as ``D-HH:MM:SS``."""
    whole, rest = divmod(round(seconds), round(DAY_S))
    return f"{whole}-{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"


def _whole(value: float) -> str:
    return f"{value:.0f}"


def _minutes(seconds: float) -> str:
    return str(max(round(seconds / MINUTE_S), 1))


class Key(NamedTuple):
    """Where slurm.conf has a parameter of the scheduler ``slurm``: a key, or an entry of SchedulerParameters."""

    name: str
    written: Callable[[Any], str]
    entry: bool = False


KEYS: Final[Mapping[str, Key]] = {
    "age_weight": Key("PriorityWeightAge", _whole),
    "max_age_s": Key("PriorityMaxAge", days),
    "fair_share_weight": Key("PriorityWeightFairshare", _whole),
    "damping": Key("FairShareDampeningFactor", _whole),
    "decay_half_life_s": Key("PriorityDecayHalfLife", days),
    "calc_period_s": Key("PriorityCalcPeriod", _minutes),
    "size_weight": Key("PriorityWeightJobSize", _whole),
    "size_factor": Key("PriorityFavorSmall", lambda value: "YES" if value == "small" else "NO"),
    "qos_weight": Key("PriorityWeightQOS", _whole),
    "partition_weight": Key("PriorityWeightPartition", _whole),
    "gpu_weight": Key("PriorityWeightTRES", _whole),
    "fair_share": Key("PriorityFlags", str),
    "preempt": Key("PreemptType", PREEMPT_TYPES.__getitem__),
    "preempt_exempt_s": Key("PreemptExemptTime", days),
    "backfill": Key("SchedulerType", lambda value: f"sched/{'builtin' if value == 'none' else 'backfill'}"),
    "queue_depth": Key("default_queue_depth", str, entry=True),
    "bf_interval_s": Key("bf_interval", _whole, entry=True),
    "bf_window_s": Key("bf_window", _minutes, entry=True),
    "bf_resolution_s": Key("bf_resolution", _whole, entry=True),
    "bf_max_job_test": Key("bf_max_job_test", str, entry=True),
    "bf_max_job_user": Key("bf_max_job_user", str, entry=True),
    "bf_max_job_start": Key("bf_max_job_start", str, entry=True),
    "bf_min_prio_reserve": Key("bf_min_prio_reserve", _whole, entry=True),
    "bf_one_resv_per_job": Key("bf_one_resv_per_job", str, entry=True),
    "youngest_first": Key("preempt_youngest_first", str, entry=True),
}
DEFAULTS: Final = {"bf_max_job_test": 500}  # of Slurm, where they are not those of the scheduler ``slurm``
WEIGHTS: Final = ("age_weight", "fair_share_weight", "size_weight")  # those that a fit and slurm.conf both tell
ALL_WEIGHTS: Final = (*WEIGHTS, "qos_weight", "partition_weight", "gpu_weight")
# What a fit finds; points of QOS and partitions are relative to those of the site, which are not in slurm.conf.
FITTED: Final = (*WEIGHTS, "size_factor", "decay_half_life_s", "backfill", "bf_interval_s", "bf_window_s")
LEAST_DAYS: Final = 5  # of the part of the log that was not fitted, over which intervals of the evidence are drawn
RELATIVE: Final = "relative"
DORMANT: Final = tuple(f"PriorityWeight{name}" for name in ("Age", "Assoc", "Fairshare", "JobSize", "Partition", "QOS"))
NOT_SLURMS: Final = (("backfill", "easy"), ("preempt", "class"))
OURS: Final = ("default_limit_s",)  # the twin's assumption on jobs without a limit; DefaultTime of the partitions stays


def site_parameters(slurm: SlurmCluster) -> dict[str, Any]:
    """Return the parameters of the scheduler ``slurm`` that a site's files tell, with Slurm's defaults for the others.

    Raises
    ------
    GpuschedError : a time that is not finite
    """
    told, default = slurm.scheduling, Slurm()
    for field, seconds in (("PriorityMaxAge", told.max_age_s), ("PriorityCalcPeriod", told.calc_period_s)):
        if not math.isfinite(seconds):
            written = slurm.settings.get(field.lower(), "")
            raise GpuschedError(
                f"slurm.conf, field {field!r}: {written!r}: give a time such as 14-0, or remove the line"
            )
    basic = told.priority_type == "priority/basic"  # weights have no effect then
    weights: Mapping[str, float] = {} if basic else told.weights
    found = {
        "age_weight": weights.get("age", 0.0),
        "max_age_s": max(told.max_age_s, MINUTE_S),
        "fair_share_weight": weights.get("fairshare", 0.0),
        "damping": max(told.damping, 1.0),
        "fair_share": "classic" if "NO_FAIR_TREE" in told.priority_flags else "tree",
        "decay_half_life_s": told.half_life_s if math.isfinite(told.half_life_s) else 0.0,
        "calc_period_s": max(told.calc_period_s, 1.0),
        "size_weight": weights.get("jobsize", 0.0),
        "size_factor": "small" if told.favor_small else "large",
        "qos_weight": weights.get("qos", 0.0),
        "partition_weight": weights.get("partition", 0.0),
        "gpu_weight": 0.0 if basic else told.tres_weights.get("gres/gpu", 0.0),
        "backfill": "conservative" if told.backfill else "none",
        "preempt_exempt_s": told.exempt_s if math.isfinite(told.exempt_s) else 0.0,
        "preempt": next((name for name, kind in PREEMPT_TYPES.items() if kind == told.preempt_type), "off"),
    }
    if "SMALL_RELATIVE_TO_TIME" in told.priority_flags:
        found["size_factor"] = "relative"
    for name, key in KEYS.items():
        if key.entry:
            value = told.parameters.get(key.name)
            found[name] = DEFAULTS.get(name, getattr(default, name))
            if key.name in FLAGS:
                found[name] = value is not None
            elif value is not None and value.isdigit() and int(value) > 0:
                scale = MINUTE_S if key.written is _minutes else 1.0
                found[name] = type(found[name])(int(value) * scale)
    return found


class Change(NamedTuple):
    """A parameter, its value in slurm.conf and the new one, and how the log tells them apart."""

    parameter: str
    before: Any
    after: Any
    evidence: str


class Changes(NamedTuple):
    """What a policy would change, what it leaves as it is because the log does not tell the two apart, and mean waits.

    ``waits_s`` : mean wait [s] in the log, in the twin under slurm.conf, and in the twin under the policy
    """

    made: tuple[Change, ...]
    left: tuple[Change, ...]
    waits_s: tuple[float, float, float]
    notes: tuple[str, ...] = ()


def changes_of(twin: Twin, slurm: SlurmCluster, workload: Workload, scheduler: str = "") -> Changes:
    """Compare a policy with a site's slurm.conf, parameter by parameter, by replays of the log.

    Of the twin's own policy, a value counts only if the waits of the part of the log that was not fitted are closer
    with it than with that of slurm.conf, with a 95 % interval by bootstrap over days. Of another policy
    (``scheduler``), what the spec does not name stays as in slurm.conf, and a value counts if some job starts at
    another time in the twin. A value that does not count is set back before the next one is looked at, until all that
    are left count together.

    Raises
    ------
    GpuschedError : slurm.conf of another cluster, a policy that is none of Slurm's, or a parameter that slurm.conf
        cannot express
    """
    _check_site(twin, slurm)
    site, fitted = site_parameters(slurm), _known(twin.scheduler)
    told = {name: value for name, value in site.items() if name != "preempt"}
    told |= {name: fitted[name] for name in (*OURS, "preempt") if name in fitted}
    scale = dict.fromkeys(ALL_WEIGHTS, 1.0)
    notes = []
    if scheduler:
        named = _expressible(scheduler, twin, site)
        chosen = {**told, **named}
        names = [name for name in KEYS if name in named]
    else:
        chosen = {name: getattr(Slurm(), name) for name in FITTED} | fitted
        names = list(FITTED)
        scale = dict.fromkeys(ALL_WEIGHTS, _scale(chosen, site))
        if chosen["backfill"] == "easy":
            chosen["backfill"] = "conservative"
            notes.append("The fit has EASY backfill, which Slurm has not: all replays here are with Slurm's own.")
    scale["size_weight"] *= twin.gpus / max(pool.cluster.gpus for pool in twin.pools)  # Slurm: parts of the cluster
    recorded = Recorded.of(workload)
    waits = recorded.start_s - recorded.arrival_s

    def starts(parameters: Mapping[str, Any]) -> np.ndarray:
        return replayed_starts(dataclasses.replace(twin, scheduler=with_parameters("slurm", **parameters)), workload)

    def compared(now_s: np.ndarray, other_s: np.ndarray) -> tuple[bool, str]:
        played = ~np.isnan(now_s)
        if not scheduler:
            played &= recorded.arrival_s >= twin.split_s  # the fit has not seen these jobs
        both = [(one - recorded.arrival_s)[played] for one in (now_s, other_s)]
        if scheduler:
            means = [readable(arrays.mean(one)) for one in both]
            said = f"with it, the mean wait in the twin is {means[0]}; with your value, all else as here, {means[1]}"
            return bool((both[0] != both[1]).any()), said
        errors = [off(waits[played], one) for one in both]
        day = ((recorded.arrival_s[played] - twin.split_s) // DAY_S).astype(np.int64)
        said = (
            f"waits in the twin are {arrays.mean(errors[0]):.1%} off the log with it, {arrays.mean(errors[1]):.1%} with"
        )
        said += " your value"
        if len(np.unique(day)) < LEAST_DAYS:
            return False, f"{said}, on fewer than {LEAST_DAYS} days, which tell nothing"
        if not errors[1].any():
            return False, said
        ratio = bootstrap_ratio(np.bincount(day, errors[0]), np.bincount(day, errors[1]))
        return ratio.high < BETTER, f"{said}: {ratio.mean:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] times"

    def mean_s(start_s: np.ndarray) -> float:
        played = ~np.isnan(start_s)
        return arrays.mean((start_s - recorded.arrival_s)[played])

    left: dict[str, Change] = {}
    while True:
        now_s, made = starts(chosen), []
        for name in (name for name in names if name not in left):
            before, after = site[name], chosen[name] * scale[name] if name in scale else chosen[name]
            if _same(name, before, after, scheduler):
                continue
            other = {**chosen, name: before / scale[name] if name in scale else before}
            apart, evidence = compared(now_s, starts(other))
            change = Change(name, before, after, evidence)
            if not apart:
                chosen, left[name] = other, change
                break
            made.append(change)
        else:
            today = {**told, **{name: site[name] / scale[name] for name in WEIGHTS}}
            today |= {name: fitted[name] for name in ("qos_weight",) if name in fitted and not scheduler}
            found = tuple(mean_s(one) for one in (recorded.start_s, starts(today), now_s))
            return Changes(tuple(made), tuple(left.values()), (found[0], found[1], found[2]), tuple(notes))


def _same(name: str, before: Any, after: Any, chosen: str) -> bool:
    """Return whether slurm.conf would have the same value; refuse a chosen value that it would lose by rounding."""
    if isinstance(after, str | bool):
        return bool(before == after)
    written = [KEYS[name].written(value) for value in (before, after)]
    if chosen and after > 0 and float(KEYS[name].written(after).replace("-", "").replace(":", "") or 0) == 0:
        raise GpuschedError(
            f"slurm-conf: {name}={after:g} is {written[1]} in slurm.conf, which rounds: give whole numbers"
        )
    return written[0] == written[1]


def _check_site(twin: Twin, slurm: SlurmCluster) -> None:
    """Refuse the slurm.conf of another cluster."""
    known = {one.name for one in slurm.partitions}
    missing = [name for pool in twin.pools for name in pool.partitions if name not in known]
    if missing or slurm.cluster.gpus != twin.gpus:
        what = (
            f"has no partition {missing[0]!r}"
            if missing
            else f"has {slurm.cluster.gpus:,} GPUs, the twin {twin.gpus:,}"
        )
        raise GpuschedError(f"--conf: it {what}; give the slurm.conf of the twin's cluster, or fit the twin again")


def _known(spec: str) -> dict[str, Any]:
    """Return the parameters of a spec of the scheduler ``slurm``."""
    if not isinstance(make_scheduler(spec), Slurm):
        raise GpuschedError(f"slurm-conf: the policy is {spec}; only that of the scheduler slurm can be written")
    return parameters_of(spec)


def _expressible(spec: str, twin: Twin, site: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a spec, which slurm.conf must be able to express, and the twin to play."""
    named = _known(spec)
    strange = [name for name in named if name not in KEYS and name not in OURS]
    strange += [f"{name}={value}" for name, value in NOT_SLURMS if named.get(name) == value]
    if strange:
        raise GpuschedError(
            f"slurm-conf: slurm.conf has no counterpart of {', '.join(strange)}; choose a policy without"
        )
    if "preempt" in named and "qos" in (named["preempt"], site["preempt"]) and not (twin.tenants and twin.tenants.qos):
        raise GpuschedError("slurm-conf: preempt is about QOS, which the twin does not know; fit it with --qos")
    return named


def _scale(chosen: Mapping[str, Any], site: Mapping[str, Any]) -> float:
    """Return the factor from fitted weights, of which only the proportions are known, to those of the site."""
    both = [name for name in WEIGHTS if site[name] > 0 and float(chosen.get(name, 0.0)) > 0]
    largest = max(both, key=lambda name: float(chosen[name]), default="")
    return float(site[largest]) / float(chosen[largest]) if largest else 1.0


def fragment(found: Changes, slurm: SlurmCluster) -> str:
    """Return the changes as lines of slurm.conf, each with its evidence; other entries of a changed line are kept.

    Raises
    ------
    GpuschedError : there is nothing to change
    """
    if not found.made:
        why = "; ".join(f"{KEYS[one.parameter].name}: {one.evidence}" for one in found.left)
        raise GpuschedError(
            "slurm-conf: nothing to change, slurm.conf stays as it is" + (f". Not told apart: {why}" if why else "")
        )
    log, today, here = (readable(value) for value in found.waits_s)
    lines = [
        f"# Mean wait: {log} in the log; in the twin {today} under your slurm.conf, {here} with the changes below.",
        *(f"# {note}" for note in found.notes),
        "# Each line replaces the line of the same key, or is new; all others stay.",
    ]
    lines += [f"# {KEYS[one.parameter].name}: {one.evidence}" for one in found.made]
    for key, value in _new_settings(found, slurm).items():
        lines.append(f"{key}={value}" if value else f"# delete the line {key}=...: it would be empty")
    lines += [f"# {KEYS[one.parameter].name} stays as it is: {one.evidence}" for one in found.left]
    return "".join(f"{line}\n" for line in lines)


def _new_settings(found: Changes, slurm: SlurmCluster) -> dict[str, str]:
    """Return the new text of each key that changes; "" = the key has no entry left."""
    new: dict[str, str] = {}

    def text(key: str) -> str:
        return new.get(key, slurm.settings.get(key.lower(), ""))

    for name, before, after, _ in found.made:
        key = KEYS[name]
        if key.entry and key.name in FLAGS:
            new["SchedulerParameters"] = _with_flag(text("SchedulerParameters"), key.name, bool(after))
        elif key.entry:
            new["SchedulerParameters"] = _with_entry(text("SchedulerParameters"), key.name, key.written(after))
        elif name == "gpu_weight":
            new[key.name] = _with_entry(text(key.name), "gres/gpu", key.written(after))
        elif name == "fair_share":
            new["PriorityFlags"] = _with_flag(text("PriorityFlags"), "NO_FAIR_TREE", after == "classic")
        else:
            if name == "size_factor" and RELATIVE in (before, after):
                new["PriorityFlags"] = _with_flag(text("PriorityFlags"), "SMALL_RELATIVE_TO_TIME", after == RELATIVE)
            if after != RELATIVE:
                new[key.name] = key.written(after)
        mode = slurm.scheduling.preempt_mode
        if name == "preempt" and (after == "off" or mode == "OFF"):  # another mode of the site stays
            new["PreemptMode"] = "OFF" if after == "off" else "REQUEUE"
    if slurm.scheduling.priority_type == "priority/basic" and any(key.startswith("PriorityWeight") for key in new):
        new["PriorityType"] = "priority/multifactor"
        # Weights that had no effect under priority/basic would have one; the replays were without them.
        new |= {key: "0" for key in DORMANT if key not in new and slurm.settings.get(key.lower(), "0") != "0"}
        if "priorityweighttres" in slurm.settings:
            new.setdefault("PriorityWeightTRES", "")
    return new


def _with_entry(text: str, name: str, value: str) -> str:
    """Return a list ``a=1,b=2`` in which ``name`` has this value."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    kept = [f"{name}={value}" if part.partition("=")[0].strip().lower() == name else part for part in parts]
    return ",".join(kept if kept != parts or f"{name}={value}" in parts else [*parts, f"{name}={value}"])


def _with_flag(text: str, name: str, on: bool) -> str:
    """Return a list of flags with or without one."""
    parts = [part.strip() for part in text.split(",") if part.strip() and part.strip().lower() != name.lower()]
    return ",".join([*parts, name] if on else parts)
