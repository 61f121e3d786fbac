"""Instances of jobs that share GPUs, with random tables of memory, sub-batches and interference."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from helpers import FREE_PREEMPTION

from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.sharing import Sharing, SharingTables
from gpusched_env.simulator import Simulation, Start

SLACK = 1e-8  # of a GPU's memory


def with_tables(instance: Instance, **tables: np.ndarray) -> Instance:
    """Replace some of an instance's tables of sharing."""
    assert instance.sharing_tables is not None
    instance.sharing_tables = SharingTables(**(instance.sharing_tables._asdict() | tables))
    return instance


def random_tables(rng: np.random.Generator, instance: Instance, hard: bool = True) -> dict[str, np.ndarray]:
    """Random tables: up to three sizes of sub-batches, some forbidden ordered pairs, memory that may bind."""
    classes, types = len(instance.classes), len(instance.cluster.gpu_types)
    steps = np.tile([1, 2, 4], (classes, 1))
    steps[rng.random(classes) < 0.4, 2] = 0
    steps[rng.random(classes) < 0.2, 1:] = 0
    fixed = rng.uniform(0.0, 0.4, classes)[:, None]
    whole = rng.uniform(0.05, 1.0, (classes, 1, types)) ** 2
    parts = 1.0 / np.maximum(steps, 1)
    xi = 1.0 + rng.exponential(0.4, (classes, classes, types)) * (rng.random((classes, classes, types)) < 0.8)
    if hard:
        xi[rng.random(xi.shape) < 0.1] = np.inf
    return dict(
        sub_steps=steps,
        compute_share=fixed + (1.0 - fixed) * parts,
        memory=whole * (0.3 + 0.7 * parts)[:, :, None],
        interference=xi,
    )


def pair(xi: tuple[float, float], seconds: Sequence[float], gap_s: float = 0.0) -> Instance:
    """Two jobs for one GPU: A arrives at 0, B ``gap_s`` later; they run ``seconds`` alone; ``xi`` of A, then of B."""
    rows = [
        dict(name=name, batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(1.0,))
        for name in ("A", "B")
    ]
    jobs = Workload.from_columns(
        [0.0, gap_s], [1, 1], seconds, profiles=Profiles.from_rows(rows, ("V100",)), profile=[0, 1]
    )
    instance = Instance(Cluster.parse("1x1"), jobs, Network("none"), Semantics(**FREE_PREEMPTION), Sharing(2, 1.0))
    table = np.ones((2, 2, 1))
    table[0, 1], table[1, 0] = xi
    return with_tables(instance, interference=table)


def tables_of(instance: Instance) -> SharingTables:
    """Tables of an instance with sharing."""
    assert instance.sharing_tables is not None
    return instance.sharing_tables


def residents(simulation: Simulation) -> list[list[int]]:
    """Rows of the replicas on each GPU."""
    gpus = simulation.instance.cluster.gpus
    layers = simulation.arrays.holder[: gpus * simulation.instance.gpu_jobs].reshape(-1, gpus)
    return [[int(number) for number in column if number >= 0] for column in layers.T]


def may_join(simulation: Simulation, job: int, gpu: int, option: int) -> str:
    """Why a job cannot take a seat on a GPU with an option of its sub-batches, by an independent check;
    "" if it can.
    """
    instance, replicas = simulation.instance, simulation.arrays.replicas
    tables, kind = tables_of(instance), int(instance.job_class[job])
    gpu_type = int(instance.cluster.nodes["gpu_type"][instance.cluster.node_of_gpu[gpu]])
    here = replicas[residents(simulation)[gpu]]
    kinds = instance.job_class[here["job"]]
    if len(here) >= instance.gpu_jobs:
        return "seat"
    if not np.isfinite(
        [*tables.interference[kind, kinds, gpu_type], *tables.interference[kinds, kind, gpu_type]]
    ).all():
        return "model"
    used = tables.memory[kinds, here["sub_batch"], gpu_type].sum() + tables.memory[kind, option, gpu_type]
    return "memory" if used > 1.0 + SLACK else ""


def options_of(simulation: Simulation, job: int) -> list[int]:
    """Options of a job's sub-batches, the whole batch first."""
    return np.flatnonzero(tables_of(simulation.instance).sub_steps[simulation.instance.job_class[job]] > 0).tolist()


def reasons_against(simulation: Simulation, decision: Start) -> set[str]:
    """Reasons, by kind, to refuse an explicit start of a waiting job beside running ones; empty if it is allowed."""
    assert decision.gpus is not None
    instance = simulation.instance
    options = options_of(simulation, decision.job)
    steps = tables_of(instance).sub_steps[instance.job_class[decision.job]]
    found = set()
    if decision.sub_steps is not None:
        options = [option for option in options if steps[option] == decision.sub_steps]
        if not options:
            found.add("steps")
    if len(decision.gpus) != instance.workload.jobs["gpus"][decision.job]:
        found.add("gang")
    known = [gpu for gpu in decision.gpus if 0 <= gpu < instance.cluster.gpus]
    taken = [gpu for gpu in known if residents(simulation)[gpu]]
    if len(known) < len(decision.gpus) or len(set(known)) < len(known) or (taken and not decision.share):
        found.add("gpus")
    for gpu in set(known):
        against = {may_join(simulation, decision.job, gpu, option) for option in options or [0]}
        found |= {"gpus"} if "seat" in against else {"model"} if "model" in against else set()
    if not any(all(may_join(simulation, decision.job, gpu, option) == "" for gpu in known) for option in options):
        found.add("memory")  # or one of those above
    return found


def check_shared(simulation: Simulation) -> None:
    """Check limit, memory, forbidden pairs and slowdowns against a recount from the holders of the GPUs."""
    instance, replicas = simulation.instance, simulation.arrays.replicas
    tables, here = tables_of(instance), residents(simulation)
    types = instance.cluster.nodes["gpu_type"][instance.cluster.node_of_gpu]
    for gpu, numbers in enumerate(here):
        kinds = instance.job_class[replicas["job"][numbers]]
        assert len(numbers) <= instance.gpu_jobs
        assert tables.memory[kinds, replicas["sub_batch"][numbers], types[gpu]].sum() <= 1.0 + SLACK
        beside = tables.interference[np.ix_(kinds, kinds)][:, :, types[gpu]]
        assert np.isfinite(beside[~np.eye(len(kinds), dtype=bool)]).all()
