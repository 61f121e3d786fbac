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


class Work(NamedTuple):
    """What a gang trains: model, how ("pretrain", "sft", "lora"), and sequences of an iteration on each GPU."""

    model: str
    training: str
    sequences: float


class Kind(NamedTuple):
    """Jobs of one kind.

    share : share of all jobs that are no evaluations, relative to other kinds
    gangs : GPUs of a gang -> weight
    log_run_s, log_sigma : mean and standard deviation of ln(run time [s])
    cancelled : probability that users cancel it
    priority : priority class
    work : models that its gangs train, equally probable
    """

    queue: str
    share: float
    gangs: dict[int, float]
    log_run_s: float
    log_sigma: float
    cancelled: float
    priority: int
    work: tuple[Work, ...]


# Shares, gangs and run times: the first 800 GPU jobs of Kalos (AcmeTrace, CC-BY-4.0); sigma = ln(p90 / p50) / 1.2816.
# What a size is used for is not in the log (choice), nor are models; batches are those of measured runs, scaled to the
# gang. An evaluation stands for inference; its profile is that of LoRA, whose exchange between GPUs is small. Users
# cancel 60 % of the GPU time, nearly all of it in large gangs.
_EVALUATED: Final = (Work("llama3.1-8b", "lora", 16.0),)
_TUNED: Final = (Work("llama3.1-70b", "lora", 2.0),)
_SMALL: Final = (Work("llama3.1-70b", "pretrain", 2.0), Work("gpt-oss-120b", "pretrain", 20.0))
_LARGE: Final = (Work("llama3.1-405b", "pretrain", 0.5), Work("nemotron4-340b", "pretrain", 0.25))
_EXPERTS: Final = Work("deepseek-v3-nomtp", "pretrain", 8.0)  # which does not fit on 320 H100
KINDS: Final = (
    Kind("debug", 0.239, {8: 191}, 5.19, 0.48, 0.01, 1, (Work("llama3.1-8b", "sft", 16.0),)),
    Kind("sft", 0.024, {16: 6, 32: 13}, 9.39, 3.06, 0.62, 1, _TUNED),
    Kind("debug", 0.111, {64: 80, 128: 9}, 6.17, 2.11, 0.25, 1, _SMALL),
    Kind("pretrain", 0.0248, {256: 20}, 9.28, 2.36, 0.62, 2, (*_LARGE, _EXPERTS)),
    Kind("pretrain", 0.0062, {320: 5}, 9.28, 2.36, 0.62, 2, _LARGE),
)
PRETRAIN: Final = 3  # first row of KINDS that is pretraining; those after it are, too
EVALUATIONS: Final = (
    Kind("evaluation", 0.237, {1: 190}, 6.23, 0.66, 0.01, 0, _EVALUATED),
    Kind("evaluation", 0.357, {2: 286}, 4.99, 2.08, 0.01, 0, _EVALUATED),
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
    ``evaluate_every_s`` of its run time, and a batch of evaluations follows each one: they are submitted when it is due
    if the job starts at once, and held until the job has run for so long (docs/dependencies.md). Attributes: queue,
    status, priority_class, model, training, batch_size (of the gang), and those of dependencies.

    Parameters
    ----------
    max_gpus : larger gangs are left out, at least 8; below 256, there is no pretraining and there are no evaluations
    mean_gap_s : mean time between jobs that are no evaluations [s]; 5,270 in the log
    evaluate_every_s : time between evaluated checkpoints, >= 600 [s] (choice: a day gives the log's small jobs)
    least_batch, most_batch : evaluations of a checkpoint, uniform, bounds included (choice)
    max_duration_s : largest run time [s], of Kalos 7.2 days

    Notes
    -----
    A run time ends as the status says: that of a failed job is its time to failure. Approximations: checkpoints are due
    at the pace of the ideal placement, counted from the first start, so a gang that is slowed, preempted or hit by a
    failure is evaluated too early; a scenario's ``load`` scales submissions, but not these times.
    """
    _check(
        least_batch, most_batch, mean_gap_s=mean_gap_s, evaluate_every_s=evaluate_every_s, max_duration_s=max_duration_s
    )
    allowed = {row: kind.share for row, kind in enumerate(KINDS) if max_gpus is None or min(kind.gangs) <= max_gpus}
    if not allowed:
        raise WorkloadError(f"max_gpus is {max_gpus}: the smallest jobs that are no evaluations have 8 GPUs")
    arrival = np.cumsum(draws.exponential(rng, jobs)) * mean_gap_s
    first = _drawn(rng, _one_of(rng, allowed, jobs), max_gpus, max_duration_s)
    batches = np.where(first.kind >= PRETRAIN, np.ceil(first.run_s / evaluate_every_s) - 1, 0)
    parent, delay_s = _due(arrival, np.minimum(batches, jobs), evaluate_every_s, int(least_batch))
    of_batch = np.repeat(np.arange(len(parent)), rng.integers(least_batch, most_batch, len(parent), endpoint=True))
    shares = {len(KINDS) + row: kind.share for row, kind in enumerate(EVALUATIONS)}
    second = _drawn(rng, _one_of(rng, shares, len(of_batch)), max_gpus, max_duration_s)
    submitted = np.concatenate([arrival, (arrival[parent] + delay_s)[of_batch]])
    order = np.argsort(submitted, kind="stable")[:jobs]
    row_of = np.empty(len(submitted), np.int64)
    row_of[order] = np.arange(jobs)
    both = _Drawn(*(np.concatenate(columns)[order] for columns in zip(first, second, strict=True)))
    before = np.concatenate([np.full(jobs, -1), parent[of_batch]])[order].tolist()
    delays = np.concatenate([np.zeros(jobs), delay_s[of_batch]])[order].tolist()
    texts = [f"after:{row_of[of]}+{s:.3f}s" if of >= 0 else "" for of, s in zip(before, delays, strict=True)]
    attributes = {**_attributes(rng, both), DEPENDENCY: text_column(texts)}
    return Workload.from_columns(submitted[order] - arrival[0], both.gpus, both.run_s, attributes=attributes)


def _due(arrival: np.ndarray, batches: np.ndarray, every_s: float, least: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the job of each batch of evaluations, and the time from its arrival to the checkpoint [s].

    Batches before which there are enough jobs, even if all batches have ``least``, are left out.
    """
    parent = np.repeat(np.arange(len(arrival)), batches.astype(np.int64))
    delay_s = every_s * (1 + np.arange(len(parent)) - np.searchsorted(parent, parent))
    due_s = arrival[parent] + delay_s
    last_s = np.sort(np.concatenate([arrival, np.repeat(due_s, least)]))[len(arrival) - 1]
    return parent[due_s <= last_s], delay_s[due_s <= last_s]


def _check(least_batch: float, most_batch: float, **times: float) -> None:
    for name, value in times.items():
        least = 600 if name == "evaluate_every_s" else 1
        if not least <= value < math.inf:
            raise WorkloadError(f"{name} is {value!r}: it must be a finite number of seconds >= {least}")
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
    works = [one.work[int(part * len(one.work))] for one, part in zip(every, choice.tolist(), strict=True)]
    return {
        "queue": np.array([one.queue for one in every]),
        "status": np.array(STATES)[state],
        "priority_class": np.array([float(one.priority) for one in every]),
        "model": np.array([one.model for one in works]),
        "training": np.array([one.training for one in works]),
        "batch_size": (drawn.gpus * [one.sequences for one in works]).astype(np.int64),
        FAILS: (state == 2).astype(float),
    }
