"""The plans of a gang: which fit, how fast they are, and why the others are refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

from gpusched_env.errors import WorkloadError, unknown_name
from gpusched_env.traces.profile_tables.llm.anchors import ROUGH, correction, measured, nearest, needs_anchor
from gpusched_env.traces.profile_tables.llm.memory import memory, why_not
from gpusched_env.traces.profile_tables.llm.quantities import KINDS, Model, find_gpu, find_model
from gpusched_env.traces.profile_tables.llm.times import Plan, Run, Times, iteration

__all__ = ["timed"]

TENSOR: Final = (1, 2, 4, 8)
CONTEXTS: Final = (1, 2, 4, 8, 16, 32, 64, 128)
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

    ``model`` : name of a shipped model, or a user's (:func:`known_models`). ``batch`` : sequences of an iteration, of
    all GPUs together. ``seq`` : tokens of a sequence, None = that of the model. WorkloadError: these cannot be
    """
    return list(find_plans(make_run(model, gpu_type, batch, seq, precision), gpus))


@lru_cache(maxsize=64)
def find_plans(run: Run, gpus: int, release: str = "") -> tuple[Option, ...]:
    """As :func:`plans`, of a run; ``release``: only rows of this release of the software are anchors."""
    if not 1 <= gpus <= MOST_GPUS:
        raise WorkloadError(f"{run.model.model} on {gpus} GPUs: give 1 to {MOST_GPUS:,}")
    found = [evaluate(run, plan, release) for plan in candidates(run, gpus, release)]
    return tuple(sorted(found, key=lambda option: (round(option.seconds, 9), option.plan)))


@lru_cache(maxsize=4096)
def best_plan(run: Run, gpus: int, release: str = "") -> Option | None:
    """Return the fastest plan that fits; None = there is none."""
    found = find_plans(run, gpus, release)
    return found[0] if found and not found[0].why_not else None


def candidates(run: Run, gpus: int, release: str = "") -> Iterator[Plan]:
    """Yield the plans that divide the gang and the batch; interleaved stages take micro batches in groups of ``pp``.

    Experts are divided as where they were measured, or over all ranks of a stage if these are fewer.
    """
    for way in dict.fromkeys(_ways(run, gpus, release)):
        dp, rest = divmod(gpus, way.gpus)
        m, more = divmod(run.batch, max(dp, 1) * way.mbs)
        if rest or more or m < way.pp or (way.vp > 1 and m % way.pp):
            continue
        parts = _divisors(math.gcd(run.model.experts or 1, dp * way.cp * way.tp))
        yield way._replace(dp=dp, ep=max(part for part in parts if part <= way.ep))


def _ways(run: Run, gpus: int, release: str) -> Iterator[Plan]:
    """Yield plans of one replica: those that were measured and, if the formula alone will do, all others.

    Tensor-parallel groups stay in a domain, with a whole number of key heads on each rank. Pipeline stages have equal
    layers, but for the embedding and the head, and their parts (vp) too. Only gangs of one stage shard parameters.
    """
    model, rows = run.model, measured(run, release)
    yield from (row.plan._replace(dp=1) for row in rows)
    if needs_anchor(run):
        return
    contexts = sorted({1, *(row.cp for row in rows)}) if run.seq <= LONG else CONTEXTS
    layers = range(max(model.layers + model.mtp - ENDS, 1), model.layers + model.mtp + ENDS + 1)
    whole = [tp for tp in TENSOR if tp <= run.gpu.domain and (model.kv_rank or model.kv_heads % tp == 0)]
    for pp in _divisors(gpus):
        of_stage = max((count // pp for count in layers if count % pp == 0), default=0)
        for tp, cp, mbs in product(whole, contexts, MICRO):
            if pp == 1:
                yield from (Plan(tp, 1, 1, cp, 1, 1, mbs, sharding) for sharding in ("zero1", "fsdp"))
            elif of_stage:
                yield from (Plan(tp, pp, vp, cp, 1, 1, mbs) for vp in _divisors(of_stage))


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
        if not basis.startswith(ROUGH) or not (reason := needs_anchor(run, plan)):
            return Option(plan, sum(times[:2]), *times[:2], used, basis)
    return Option(plan, math.inf, math.inf, math.inf, used, why_not=reason)


def timed(run: Run, plan: Plan, release: str = "", inside: int = 0) -> tuple[Times, str]:
    """Return the times of an iteration, corrected by the nearest measured row, and how exact they are."""
    anchor = nearest(run, plan, release)
    if anchor is None:
        alike = "" if run.gpu.fitted_as == run.gpu.gpu else f", with the efficiency of the {run.gpu.fitted_as}"
        return iteration(run, plan, inside), ROUGH + alike
    factor = correction(anchor)  # the measured time contains what the recipe recomputed
    parts = iteration(run, plan._replace(recompute="none"), inside)
    return Times(*(factor * part for part in parts)), f"anchored ({anchor.release}, {anchor.gpus} GPUs)"


def refused(run: Run, gpus: int, release: str = "") -> str:
    """Return why no plan of a gang can run; "" = one can."""
    if best_plan(run, gpus, release):
        return ""
    found = find_plans(run, gpus, release)
    if found:
        least = min(found, key=lambda option: (option.memory_bytes, option.plan))
        return f"the plan of least memory: {least.why_not}"
    if needs_anchor(run) and not measured(run, release):
        of = f"{run.kind} in {run.precision} with {run.seq} tokens on {run.gpu.gpu}"
        return f"{needs_anchor(run)}, and no row of {of} was measured"
    why = "measured " if needs_anchor(run) else ""
    return f"no {why}plan divides {gpus} GPUs, {run.model.layers} layers and a batch of {run.batch}"


def _divisors(number: int) -> tuple[int, ...]:
    return tuple(part for part in range(1, number + 1) if number % part == 0)
