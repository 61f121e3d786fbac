"""Jobs of a cluster that develops LLMs, in the mix of Acme's Kalos: pretraining and the evaluations behind it."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from gpusched_env.errors import WorkloadError
from gpusched_env.portable import arrays, draws
from gpusched_env.problem.dependencies import DEPENDENCY, FAILS, text_column
from gpusched_env.problem.workload import Workload
from gpusched_env.traces.generators.demand import demand_table, draw_demand

DAY_S: Final = 86_400.0
STATES: Final = ("COMPLETED", "CANCELLED", "FAILED")
# Script errors end jobs within 0.7 to 4 min (Acme). Jobs that end by then fail with the first probability, others with
# the second (choice): together they give the shares of failed jobs (0.397) and of their GPU time (0.080) in Kalos.
EARLY_S: Final = 240.0
FAILING: Final = (0.75, 0.09)


class Kind(NamedTuple):
    """Jobs of one kind.

    share : share of all jobs that are no evaluations, relative to other kinds
    gangs : GPUs of a gang -> weight
    log_run_s, log_sigma : mean and standard deviation of ln(run time [s])
    cancelled : probability that users cancel it
    priority : priority class
    work : GPUs of a gang, at least -> models, and how they are trained ("pretrain", "sft", "lora")
    """

    queue: str
    share: float
    gangs: dict[int, float]
    log_run_s: float
    log_sigma: float
    cancelled: float
    priority: int
    work: dict[int, tuple[tuple[str, str], ...]]


# Shares, gangs and run times: the first 800 GPU jobs of Kalos (AcmeTrace, CC-BY-4.0); sigma = ln(p90 / p50) / 1.2816.
# What a size is used for is not in the log (choice), nor are models. An evaluation stands for inference; its profile is
# that of LoRA, whose exchange between GPUs is small. Cancelled: 60 % of the GPU time, nearly all of it in large gangs.
_LLAMA_8B: Final = (("llama3.1-8b", "lora"),)
KINDS: Final = (
    Kind("debug", 0.239, {8: 191}, 5.19, 0.48, 0.01, 1, {8: (("llama3.1-8b", "sft"),)}),
    Kind("sft", 0.024, {16: 6, 32: 13}, 9.39, 3.06, 0.62, 1, {16: (("llama3.1-70b", "lora"),)}),
    Kind("debug", 0.111, {64: 80, 128: 9}, 6.17, 2.11, 0.25, 1, {64: (("llama3.1-70b", "pretrain"),)}),
    Kind("pretrain", 0.031, {256: 20, 320: 5}, 9.28, 2.36, 0.62, 2, {256: (("llama3.1-405b", "pretrain"),)}),
)
PRETRAIN: Final = 3  # row of KINDS
EVALUATIONS: Final = (
    Kind("evaluation", 0.237, {1: 190}, 6.23, 0.66, 0.01, 0, {1: _LLAMA_8B}),
    Kind("evaluation", 0.357, {2: 286}, 4.99, 2.08, 0.01, 0, {2: _LLAMA_8B}),
)


class _Drawn(NamedTuple):
    """Drawn jobs: row in KINDS + EVALUATIONS, GPUs, run time [s]."""

    kind: np.ndarray
    gpus: np.ndarray
    run_s: np.ndarray


def llm_dev_jobs(
    rng: np.random.Generator,
    jobs: int,
    max_gpus: int | None = None,
    mean_gap_s: float = 5_270.0,
    evaluate_every_s: float = DAY_S,
    least_batch: int = 10,
    most_batch: int = 60,
    max_duration_s: float = 7 * DAY_S,
) -> Workload:
    """Draw jobs like those of Acme's cluster Kalos (Hu et al., NSDI 2024): pretraining, SFT, debugging, evaluations.

    Jobs that are no evaluations arrive as a Poisson process. A pretraining job writes a checkpoint to evaluate every
    ``evaluate_every_s`` of its run time; a batch of evaluations follows each one. They are submitted with the
    pretraining job and held until it has started and that time has passed (docs/dependencies.md). Attributes: queue,
    status, priority_class, model, training, and those of dependencies.

    Parameters
    ----------
    max_gpus : larger gangs are left out, at least 8; below 256, there is no pretraining and there are no evaluations
    mean_gap_s : mean time between jobs that are no evaluations [s]; 5,270 in the log
    evaluate_every_s : time between evaluated checkpoints [s] (choice: a day gives the log's share of small jobs)
    least_batch, most_batch : evaluations of a checkpoint, uniform, bounds included (choice)
    max_duration_s : largest run time [s], of Kalos 7.2 days

    Notes
    -----
    A run time ends as the status says: that of a failed job is its time to failure. Approximations: checkpoints are due
    at the pace of the ideal placement, counted from the first start, so a gang that is slowed, preempted or hit by a
    failure is evaluated too early; the last batch may be cut, to draw ``jobs`` jobs.
    """
    _check(
        least_batch, most_batch, mean_gap_s=mean_gap_s, evaluate_every_s=evaluate_every_s, max_duration_s=max_duration_s
    )
    allowed = {row: kind.share for row, kind in enumerate(KINDS) if max_gpus is None or min(kind.gangs) <= max_gpus}
    if not allowed:
        raise WorkloadError(f"max_gpus is {max_gpus}: the smallest jobs that are no evaluations have 8 GPUs")
    arrival = np.cumsum(draws.exponential(rng, jobs)) * mean_gap_s
    first = _drawn(rng, _one_of(rng, allowed, jobs), max_gpus, max_duration_s)
    batches = np.where(first.kind == PRETRAIN, np.ceil(first.run_s / evaluate_every_s) - 1, 0)
    batches = np.minimum(batches, jobs).astype(np.int64)
    kept = int(np.searchsorted(np.cumsum(1 + least_batch * batches), jobs)) + 1  # more are never needed
    parent = np.repeat(np.arange(kept), batches[:kept])  # of each batch
    due_s = evaluate_every_s * (1 + np.arange(len(parent)) - np.searchsorted(parent, parent))
    of_batch = np.repeat(np.arange(len(parent)), rng.integers(least_batch, most_batch, len(parent), endpoint=True))
    shares = {len(KINDS) + row: kind.share for row, kind in enumerate(EVALUATIONS)}
    second = _drawn(rng, _one_of(rng, shares, len(of_batch)), max_gpus, max_duration_s)
    of = np.concatenate([np.arange(kept), parent[of_batch]])
    order = np.argsort(of, kind="stable")[:jobs]  # each pretraining job before its evaluations
    of, delay_s = of[order], np.concatenate([np.zeros(kept), due_s[of_batch]])[order]
    both = _Drawn(*(np.concatenate([one[:kept], other])[order] for one, other in zip(first, second, strict=True)))
    before = zip(np.searchsorted(of, of).tolist(), delay_s.tolist(), strict=True)
    texts = [f"after:{row}+{delay:.3f}s" if delay else "" for row, delay in before]
    attributes = {**_attributes(rng, both), DEPENDENCY: text_column(texts)}
    return Workload.from_columns(arrival[of] - arrival[0], both.gpus, both.run_s, attributes=attributes)


def _check(least_batch: float, most_batch: float, **times: float) -> None:
    for name, value in times.items():
        if not 1 <= value < math.inf:
            raise WorkloadError(f"{name} is {value!r}: it must be a finite number of seconds >= 1")
    if not 1 <= least_batch <= most_batch or least_batch % 1 or most_batch % 1:
        raise WorkloadError(
            f"least_batch and most_batch are {least_batch!r} and {most_batch!r}: give whole numbers >= 1"
        )


def _one_of(rng: np.random.Generator, shares: dict[int, float], count: int) -> np.ndarray:
    """Draw keys with probabilities in proportion to their shares; int64 [count]."""
    ends = np.cumsum(list(shares.values()))
    return np.array(list(shares))[np.searchsorted(ends / ends[-1], rng.random(count), side="right")]


def _drawn(rng: np.random.Generator, kind: np.ndarray, max_gpus: int | None, most_s: float) -> _Drawn:
    """Draw the gangs and run times of jobs of these kinds."""
    gpus, every = np.zeros(len(kind), np.int64), KINDS + EVALUATIONS
    for row in np.unique(kind).tolist():
        of_kind = kind == row
        gpus[of_kind] = draw_demand(rng, int(of_kind.sum()), demand_table(every[row].gangs, max_gpus))
    mean, sigma = (np.array([getattr(one, name) for one in every])[kind] for name in ("log_run_s", "log_sigma"))
    run_s = arrays.exp(mean + sigma * draws.normal(rng, len(kind)))
    return _Drawn(kind, gpus, np.clip(run_s, 1.0, most_s))


def _attributes(rng: np.random.Generator, drawn: _Drawn) -> dict[str, np.ndarray]:
    """Draw how jobs end and what they train."""
    every = [(KINDS + EVALUATIONS)[row] for row in drawn.kind.tolist()]
    failing = np.where(drawn.run_s <= EARLY_S, *FAILING)
    end, choice = rng.random((2, len(every)))
    state = np.where(end < failing, 2, np.where(end < failing + [one.cancelled for one in every], 1, 0))
    gangs = drawn.gpus.tolist()
    works = [
        one.work[max(least for least in one.work if least <= gang)] for one, gang in zip(every, gangs, strict=True)
    ]
    pairs = [work[int(part * len(work))] for work, part in zip(works, choice.tolist(), strict=True)]
    return {
        "queue": np.array([one.queue for one in every]),
        "status": np.array(STATES)[state],
        "priority_class": np.array([float(one.priority) for one in every]),
        "model": np.array([model for model, _ in pairs]),
        "training": np.array([training for _, training in pairs]),
        FAILS: (state == 2).astype(float),
    }
