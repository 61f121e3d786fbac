"""Placement rules about GPU types: the fastest type that has room, and copies of a gang on several machines."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import Script, begin, check_counts, play, state_bytes
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.core.planning import Walk, plan_starts
from gpusched_env.errors import WorkloadError
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, NETWORK, Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import RULE_NUMBER, ClusterView, Simulation, Start, simulate

TYPES = ("A", "B", "C")
# The order of the types differs; the last model cannot run on B.
SECONDS = ((0.1, 0.2, 0.5), (0.3, 0.1, 0.2), (0.2, np.inf, 0.1))
ROOM = Cluster([NodeGroup(2, 4, "A"), NodeGroup(2, 2, "B"), NodeGroup(1, 4, "C"), NodeGroup(1, 1, "B")])


def instance_of(gangs: list[int], models: list[int], network: Network | None = None, **rules: float) -> Instance:
    rows = [
        dict(name=f"m{i}", batch=1, gradient_bytes=1e9 * i, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=seconds)
        for i, seconds in enumerate(SECONDS)
    ]
    workload = Workload.from_columns(
        np.zeros(len(gangs)), gangs, iterations=[1_000.0] * len(gangs), profiles=Profiles.from_rows(rows, TYPES),
        profile=models,
    )  # fmt: skip
    return Instance(ROOM, workload, network, Semantics(**rules))  # type: ignore[arg-type]


def started(instance: Instance, busy: list[int], rule: str) -> tuple[Simulation, tuple[int, ...]]:
    """One-GPU jobs hold ``busy``; returns the GPUs of the last job by the rule, none if it is refused."""
    simulation = begin(instance)
    for job, gpu in enumerate(busy):
        assert simulation.apply(Start(job, gpus=(gpu,))) == ""
    last, before = len(busy), state_bytes(simulation)
    promised = ClusterView(simulation).where(last, rule)
    refusal = simulation.apply(Start(last, rule))
    assert bool(promised) == (refusal == "")
    check_counts(simulation)
    if refusal:
        assert state_bytes(simulation) == before
        return simulation, ()
    log = simulation.log()
    gpus = tuple(log.gang(len(log.events) - 1).tolist())
    assert gpus == promised
    return simulation, gpus


situations = st.tuples(
    st.sets(st.integers(0, ROOM.gpus - 1), max_size=ROOM.gpus - 1).map(sorted),
    st.integers(1, ROOM.gpus),
    st.integers(0, len(SECONDS) - 1),
    st.sampled_from([Network(), Network("none")]),
)


@settings(max_examples=150)
@given(situations)
def test_fastest_type_is_the_fastest_that_has_room_and_best_fit_there(situation) -> None:  # type: ignore[no-untyped-def]
    busy, gang, model, network = situation
    try:
        instance = instance_of([1] * len(busy) + [gang], [0] * len(busy) + [model], network)
    except WorkloadError:  # no GPUs can run the gang: no instance
        return
    _, gpus = started(instance, busy, "fastest-type")
    free = np.bincount(np.delete(ROOM.node_of_gpu, busy), minlength=len(ROOM.nodes))
    node_type = ROOM.nodes["gpu_type"]
    seconds = {}
    for gpu_type in range(len(TYPES)):
        here = free[node_type == gpu_type]
        if here.sum() >= gang:
            tier = MACHINE if here.max() >= gang else NETWORK
            seconds[gpu_type] = instance.iteration_s[instance.job_class[-1], tier, gpu_type]
    able = {gpu_type: each for gpu_type, each in seconds.items() if np.isfinite(each)}
    assert bool(gpus) == bool(able)
    if not gpus:
        return
    used = ROOM.node_of_gpu[list(gpus)]
    assert len(set(node_type[used].tolist())) == 1
    assert seconds[int(node_type[used[0]])] == min(able.values())
    fitting = free[(node_type == node_type[used[0]]) & (free >= gang)]
    if len(fitting):
        assert len(set(used.tolist())) == 1
        assert free[used[0]] == fitting.min()


@settings(max_examples=150)
@given(situations, st.integers(1, 4))
def test_fork_puts_a_copy_on_each_machine_that_has_room(situation, copies: int) -> None:  # type: ignore[no-untyped-def]
    busy, gang, model, network = situation
    try:
        instance = instance_of([1] * len(busy) + [gang], [0] * len(busy) + [model], network, max_copies=copies)
    except WorkloadError:
        return
    simulation, gpus = started(instance, busy, "fork")
    able = np.isfinite(instance.iteration_s[instance.job_class[-1], MACHINE, ROOM.nodes["gpu_type"]])
    free = np.bincount(np.delete(ROOM.node_of_gpu, busy), minlength=len(ROOM.nodes))
    expected = np.flatnonzero(able & (free >= gang))[:copies]
    assert ROOM.node_of_gpu[list(gpus)].tolist() == np.repeat(expected, gang).tolist()
    if len(gpus):
        rates = 1.0 / instance.iteration_s[instance.job_class[-1], MACHINE, ROOM.nodes["gpu_type"][expected]]
        told = simulation.arrays.replicas["iteration_s"][simulation.arrays.jobs[len(busy)]["replica"]]
        assert told == pytest.approx(1.0 / rates.sum(), rel=1e-12)


def test_a_plan_counts_the_gpus_of_all_copies() -> None:
    """Three machines have room for four GPUs: the first job gets two copies, the second one, the third waits."""
    instance = instance_of([4, 4, 4], [0, 0, 0], Network("none"), max_copies=2)
    simulation = begin(instance)
    before = state_bytes(simulation)
    starts = np.empty(3, np.int32)
    order, rules = np.arange(3, dtype=np.int32), np.full(3, RULE_NUMBER["fork"], np.int32)
    assert plan_starts(simulation.arrays, Walk(order=order, rules=rules, verdicts=starts), 3, False) == 2
    assert starts[:2].tolist() == [0, 1]
    assert state_bytes(simulation) == before
    for job in (0, 1):
        assert simulation.apply(Start(job, "fork")) == ""
    assert simulation.apply(Start(2, "fork")) == "the placement rule finds no place now"
    assert simulation.arrays.world["free_gpus"] == 17 - 8 - 4


@pytest.mark.parametrize("scheduler", ["fifo-skip", "srtf", "las-2d"])
@pytest.mark.parametrize("rule", ["fork", "fastest-type"])
def test_heuristics_with_these_rules_give_valid_logs(scheduler: str, rule: str) -> None:
    rng = np.random.default_rng(3)
    gangs, models = rng.integers(1, 3, 14).tolist(), rng.integers(0, 3, 14).tolist()
    instance = instance_of(gangs, models, Network("none"), max_copies=3)
    log = play(instance, scheduler, placement=rule)
    assert np.isfinite(job_times(instance, log)["finish_s"]).all()


def test_a_single_job_gains_the_rates_of_its_copies() -> None:
    """0.1, 0.1 | 0.2, 0.2 | 0.5 | 0.2 s an iteration: 10 + 10 + 5 + 5 + 2 + 5 iterations a second."""
    instance = instance_of([1], [0], Network("none"), max_copies=9)
    log = simulate(instance, Script({}, then="fork"))
    validate(instance, log)
    assert job_times(instance, log)["finish_s"][0] == pytest.approx(1_000 / 37, rel=1e-12)
