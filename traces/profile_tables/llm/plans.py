"""The plans of a gang: which fit, how fast they are, and why the others are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.traces.profile_tables.llm.anchors import ROUGH, correction, measured, nearest, needs_anchor
from gpusched_env.traces.profile_tables.llm.memory import memory, why_not
from gpusched_env.traces.profile_tables.llm.quantities import KINDS, Model, find_gpu, find_model
from gpusched_env.traces.profile_tables.llm.times import Plan, Run, Times, iteration

TENSOR: Final = (1, 2, 4, 8)
MICRO: Final = (1, 2, 4, 8)  # [sequence] of a micro batch
LONG: Final = 32_768  # [token] sequences that are longer are divided (context parallelism)
ENDS: Final = 2  # layers by which the embedding and the head may make stages uneven
RECOMPUTE: Final = ("none", "partial", "full")  # in this order: the first that fits is the fastest
MOST_GPUS: Final = 131_072


class Option(NamedTuple):
    """A plan of a gang of ``plan.gpus`` GPUs, on as few servers as hold it."""

    plan: Plan
    seconds: float  # of an iteration; inf if refused
    compute_s: float
    communication_s: float
    memory_bytes: float  # of the fullest GPU
    basis: str = ""  # how exact the seconds are: the measured row, or "± 15 %"
    why_not: str = ""  # "" = the gang can run it


def make_run(
    model: str | Model, gpu_type: str, batch: int, seq: int | None = None, precision: str = "BF16",
    kind: str = "pretrain",
) -> Run:  # fmt: skip
    """Return what a gang trains; WorkloadError: an unknown name, or a number that cannot be."""
    found = find_model(model) if isinstance(model, str) else model
    run = Run(found, find_gpu(gpu_type), batch, seq or found.seq, precision, kind)
    if kind not in KINDS:
        raise WorkloadError(unknown_name("kind of training", kind, KINDS))
    if batch < 1 or run.seq < 1:
        raise WorkloadError(f"{found.model}: batch {batch}, sequences of {run.seq} tokens: give at least 1 of each")
    run.gpu.peak(precision)
    return run


def plans(
    model: str | Model, gpus: int, gpu_type: str, batch: int, seq: int | None = None, precision: str = "BF16"
) -> list[Option]:
    """Return all plans of pretraining on ``gpus`` GPUs, fastest first; then those that are refused, with the reason.

    Parameters
    ----------
    model : name of a shipped model, or a user's (:func:`known_models`)
    batch : sequences of an iteration, of all GPUs together
    seq : tokens of a sequence; None = that of the model

    Raises
    ------
    WorkloadError : an unknown name, or a number that cannot be
    """
    return list(find_plans(make_run(model, gpu_type, batch, seq, precision), gpus))


@lru_cache(maxsize=4096)
def find_plans(run: Run, gpus: int, release: str = "") -> tuple[Option, ...]:
    """As :func:`plans`, of a run; ``release``: only rows of this release of the software are anchors."""
    if not 1 <= gpus <= MOST_GPUS:
        raise WorkloadError(f"{run.model.model} on {gpus} GPUs: give 1 to {MOST_GPUS:,}")
    found = [evaluate(run, plan, release) for plan in candidates(run, gpus, release)]
    return tuple(sorted(found, key=lambda option: (round(option.seconds, 9), option.plan)))


def best_plan(run: Run, gpus: int, release: str = "") -> Option | None:
    """Return the fastest plan that fits; None = there is none."""
    found = find_plans(run, gpus, release)
    return found[0] if found and not found[0].why_not else None


def candidates(run: Run, gpus: int, release: str = "") -> Iterator[Plan]:
    """Yield the plans that divide the gang, the layers, the experts and the batch; see :func:`_ways` for the rest.

    Experts are divided as where they were measured, or over all ranks of a stage if these are fewer.
    """
    experts = run.model.experts or 1
    most = max((row.ep for row in measured(run, release)), default=1)
    for tp, pp, vps, cp, mbs, sharding in _ways(run, gpus, release):
        dp, rest = divmod(gpus, tp * pp * cp)
        if rest or run.batch % (dp * mbs):
            continue
        m = run.batch // (dp * mbs)
        if m < pp:
            continue
        for vp in vps:
            if vp > 1 and m % pp:
                continue
            ep = max((ep for ep in _divisors(math.gcd(experts, dp * cp * tp)) if ep <= most), default=1)
            yield Plan(tp, pp, vp, cp, ep, dp, mbs, sharding)


def _ways(run: Run, gpus: int, release: str) -> Iterator[tuple[int, int, tuple[int, ...], int, int, str]]:
    """Yield ways to divide a model: those that were measured and, if the formula alone will do, all others.

    Tensor-parallel groups stay in a domain, with a whole number of key heads on each rank. Pipeline stages have equal
    layers, but for the embedding and the head, and their parts (vp) too. Only gangs of one stage shard parameters.
    """
    model, domain = run.model, run.gpu.domain
    rows = measured(run, release)
    known = dict.fromkeys((row.tp, row.pp, (row.vp,), row.cp, row.mbs, row.sharding) for row in rows)
    yield from known
    if needs_anchor(run):
        return
    seen = {(tp, pp, vp, cp, mbs, sharding) for tp, pp, (vp,), cp, mbs, sharding in known}
    contexts = {1, *(row.cp for row in rows)} if run.seq <= LONG else {2**power for power in range(8)}
    for tp in TENSOR:
        if tp > domain or (not model.kv_rank and model.kv_heads % tp):
            continue
        for pp in _divisors(gpus):
            counts = range(max(model.layers + model.mtp - ENDS, 1), model.layers + model.mtp + ENDS + 1)
            layers = max((count // pp for count in counts if count % pp == 0), default=0)
            if not layers:
                continue
            for cp in sorted(contexts):
                for mbs in MICRO:
                    for sharding in ("zero1", "fsdp")[: 1 + (pp == 1)]:
                        vps = _divisors(layers) if pp > 1 else (1,)
                        fresh = tuple(vp for vp in vps if (tp, pp, vp, cp, mbs, sharding) not in seen)
                        yield tp, pp, fresh, cp, mbs, sharding


def evaluate(run: Run, plan: Plan, release: str = "") -> Option:
    """Return a plan with its seconds and memory, recomputing as little as fits."""
    reason, used = "", 0.0
    for recompute in RECOMPUTE:
        plan = plan._replace(recompute=recompute)
        parts = memory(run, plan)
        reason, used = why_not(run, plan, parts), sum(parts)
        if not reason:
            break
    if not reason:
        times, basis = timed(run, plan, release)
        if basis != ROUGH or not (reason := _unmeasured(run, plan)):
            return Option(plan, sum(times[:2]), *times[:2], used, basis)
    return Option(plan, math.inf, math.inf, math.inf, used, why_not=reason)


def _unmeasured(run: Run, plan: Plan) -> str:
    """Return why the formula alone says nothing of a plan; "" = it does."""
    if plan.sharding == "fsdp" and plan.gpus > run.gpu.domain:
        return f"FSDP beyond an NVLink domain ({run.gpu.domain} GPUs) needs a measured row of this plan"
    return needs_anchor(run)


def timed(run: Run, plan: Plan, release: str = "", inside: int = 0) -> tuple[Times, str]:
    """Return the times of an iteration, corrected by the nearest measured row, and how exact they are."""
    anchor = nearest(run, plan, release)
    if anchor is None:
        return iteration(run, plan, inside), ROUGH
    factor = correction(anchor)  # the measured time contains what the recipe recomputed
    times = iteration(run, plan._replace(recompute="none"), inside)
    return times._replace(
        compute_s=factor * times[0], communication_s=factor * times[1]
    ), f"anchored ({anchor.release}, {anchor.gpus} GPUs)"


def refused(run: Run, gpus: int, release: str = "") -> str:
    """Return why no plan of a gang can run; "" = one can."""
    if best_plan(run, gpus, release):
        return ""
    found = find_plans(run, gpus, release)
    if found:
        least = min(found, key=lambda option: (option.memory_bytes, option.plan))
        return f"the smallest plan is too large; {least.why_not}"
    if needs_anchor(run) and not measured(run, release):
        of = f"{run.kind} in {run.precision} with {run.seq} tokens on {run.gpu.gpu}"
        return f"{needs_anchor(run)}, and no row of {of} was measured"
    why = "measured " if needs_anchor(run) else ""
    return f"no {why}plan divides {gpus} GPUs, {run.model.layers} layers and a batch of {run.batch}"


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(part for part in range(1, number + 1) if number % part == 0)
