"""Random decisions on random clusters: invariants hold, and refused decisions change nothing."""

from __future__ import annotations

import dataclasses

import numpy as np
from helpers import check_counts, random_workload, state_bytes, two_types
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.core.queries import Asked, progress
from gpusched_env.core.refusals import (
    BAD_SIZE,
    BAD_SUB_STEPS,
    CANNOT_RUN,
    HAS_STARTED,
    IS_CLOSED,
    IS_REFUSED,
    LEASE_TOO_LATE,
    MAY_NOT_SHARE,
    NO_MEMORY,
    REFUSALS,
    SPLITS_PART,
)
from gpusched_env.core.state import CHECKPOINTING, FINISHED, FUTURE, RUNNING, WAITING
from gpusched_env.event_log import COMPLETE, EVENT_KINDS, FAIL, REFUSE, RESIZE
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import COLLECTIVES, Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import TIE_ORDERS, Instance, Semantics
from gpusched_env.simulator import PLACEMENT_RULES, Decision, Lease, Outcome, Preempt, Simulation, Start, Wait
from gpusched_env.support.units import LATEST_S

CLUSTERS = [Cluster.parse("1x4"), Cluster.parse("4x4/2"), two_types(), two_types((3, 2), (2, 5), 2)]
MAY_REFUSE = ("consolidate", "yarn", "rack", "least-busy-servers", "fastest-type", "fork", "rails")


def draw_instance(rng: np.random.Generator) -> Instance:
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    rules = Semantics(
        round_s=float(rng.choice([0, 0, 60, 37.3])),
        checkpoint_s=float(rng.choice([0, 30, 11.1])),
        restore_s=float(rng.choice([0, 30, 300])),
        tie_order=str(rng.choice(TIE_ORDERS)),
        time_limit_s=float(rng.choice([np.inf, np.inf, 2_000])),
    )
    workload = random_workload(rng, int(rng.integers(1, 25)), cluster.gpus, cluster.gpu_types, 60.0)
    return Instance(cluster, workload, draw_network(rng), rules)


def draw_network(rng: np.random.Generator) -> Network:
    """Tiers in half of the cases; else links that are slow enough for contention."""
    if rng.random() < 0.5:
        return Network()
    nics = int(rng.choice([1, 1, 2]))
    kind = str(
        rng.choice(["single-switch", "leaf-spine", "rail-optimised"] if nics > 1 else ["single-switch", "leaf-spine"])
    )
    fields = {} if kind == "single-switch" else {"oversubscription": float(rng.choice([1, 2, 4])), "uplinks": 2}
    topology = TopologySpec(
        kind, nic_GBps=0.5, gpu_GBps=2.0, nics=nics, host_bus_GBps=None if rng.random() < 0.8 else 1.5, **fields
    )
    contention = Contention(
        str(rng.choice(["none", "maxmin", "maxmin", "kway", "flat", "budget"])),
        duty=str(rng.choice(["always", "const", "solo"])),
        ecmp=str(rng.choice(["ideal", "hashed"])),
        xi1=0.5,
        k_mode=str(rng.choice(["clamp", "affine"])),
        shared_loss=0.25,
    )
    collective = str(rng.choice(list(COLLECTIVES)))
    if collective == "nvls":  # it needs switches that reduce
        topology = dataclasses.replace(topology, switch_share=0.75)
    return Network(
        "topology",
        topology=topology,
        contention=contention,
        collective=collective,
        reduction_GBps=None if rng.random() < 0.5 else 100.0,
        machine_overhead_s=float(rng.choice([0.0, 0.001])),
    )


def draw_decision(rng: np.random.Generator, simulation: Simulation) -> Decision:
    jobs = len(simulation.instance.workload)
    job = int(rng.integers(-2, jobs + 2))
    kind = rng.random()
    if kind < 0.55:
        return Start(job, str(rng.choice(list(PLACEMENT_RULES))))
    if kind < 0.75:
        gang = int(simulation.instance.workload.jobs["gpus"][job % jobs]) + int(rng.random() < 0.1)
        free = np.flatnonzero(simulation.arrays.holder[: simulation.instance.cluster.gpus] == -1)
        choice = rng.integers(-1, simulation.instance.cluster.gpus + 1, gang) if rng.random() < 0.3 else free[:gang]
        return Start(job, gpus=tuple(choice.tolist()))
    if kind < 0.85:
        return Lease(job, simulation.now_s + float(rng.choice([rng.uniform(-100, 500), 100.0, np.inf, 2 * LATEST_S])))
    if kind < 0.95:
        return Preempt(job)
    return Wait(simulation.now_s + float(rng.uniform(1, 500)))


def expected_refusals(simulation: Simulation, decision: Decision) -> set[str]:
    """Reasons to refuse a decision, by an independent check; there may be several."""
    if isinstance(decision, Wait):
        return {""}
    state, world = simulation.arrays, simulation.arrays.world
    known = 0 <= decision.job < world["jobs"]
    explicit = isinstance(decision, Start) and decision.gpus is not None and len(decision.gpus) > world["gpus"]
    if not known and not explicit:
        return {"no such job in this scenario"}
    job = state.jobs[decision.job if known else 0]
    if explicit:
        return {
            "the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it"
        }  # checked first: no such gang exists
    if isinstance(decision, Preempt | Lease):
        if job["status"] != RUNNING:
            return {"the job has finished"} if job["status"] == FINISHED else {"the job is not running"}
        replica = state.replicas[job["replica"]]
        if replica["phase"] == CHECKPOINTING:
            return {"the gang is being checkpointed"}
        if isinstance(decision, Lease):
            if LATEST_S < decision.until_s < np.inf:
                return {REFUSALS[LEASE_TOO_LATE]}
            return {"" if decision.until_s > simulation.now_s else "a lease must end in the future"}
        return {"the gang started at this very instant"} if replica["start_s"] == simulation.now_s else {""}
    reasons = {FUTURE: "the job has not arrived yet", RUNNING: "the job is running", FINISHED: "the job has finished"}
    if job["status"] != WAITING:
        return {reasons[int(job["status"])]}
    found = set()
    if job["gpus"] > (state.holder == -1).sum():
        found.add("too few free GPUs")
    if decision.gpus is None:
        if not found and decision.rule in MAY_REFUSE:
            return {
                "",
                "the placement rule finds no place now",
            }  # tests/simulator/test_placement.py checks which of the two
        return found or {""}
    if len(decision.gpus) != job["gpus"]:
        found.add("the number of explicit GPUs is neither the job's gang size nor an allowed multiple of it")
    free = set(np.flatnonzero(state.holder == -1).tolist())
    if len(set(decision.gpus)) != len(decision.gpus) or not set(decision.gpus) <= free:
        found.add("an explicit GPU does not exist, is listed twice or is not free")
    return found or {""}


def work_of(simulation: Simulation) -> np.ndarray:
    rows = np.arange(len(simulation.instance.workload), dtype=np.int32)
    answers = np.empty((2, len(rows)))
    progress(simulation.arrays, Asked(rows=rows, answers=answers), len(rows))
    return answers[0]


@settings(max_examples=120)
@given(st.integers(0, 2**32))
def test_random_play_keeps_every_invariant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = draw_instance(rng)
    simulation = Simulation(instance, seed)
    clock, left = 0.0, work_of(simulation)
    for _ in range(400):
        outcome = simulation.advance()
        assert simulation.now_s >= clock
        clock = simulation.now_s
        check_counts(simulation)
        now_left = work_of(simulation)
        assert (now_left <= left).all(), "work grew"
        left = now_left
        if outcome is not Outcome.DECIDE:
            break
        for _ in range(int(rng.integers(0, 6))):
            decision = draw_decision(rng, simulation)
            expected, before = expected_refusals(simulation, decision), state_bytes(simulation)
            reason = simulation.apply(decision)
            assert reason in expected, decision
            assert reason in REFUSALS
            if reason:
                assert state_bytes(simulation) == before, decision
            check_counts(simulation)
            assert (work_of(simulation) == left).all(), "a decision changed work"
            assert simulation.now_s == clock
    log = simulation.log()
    stopped = outcome in (Outcome.DONE, Outcome.TIME_LIMIT)
    validate(instance, log, complete=stopped)
    assert (np.diff(log.events["time_s"]) >= 0).all()
    if outcome is Outcome.DONE:
        assert (log.events["kind"] == COMPLETE).sum() == len(instance.workload)
        assert simulation.finished == len(instance.workload)
    times = job_times(instance, log, end_s=clock)
    inside = times["arrival_s"] <= clock
    life = np.where(np.isnan(times["jct_s"]), clock - times["arrival_s"], times["jct_s"])
    parts = times["queueing_s"] + times["service_s"] + times["overhead_s"]
    np.testing.assert_allclose(parts[inside], life[inside], rtol=1e-9, atol=1e-6)


def test_random_play_meets_every_kind_of_refusal_and_event() -> None:
    """The property above would be vacuous if no decision were refused or preempted a gang."""
    seen: set[str] = set()
    kinds: set[int] = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        simulation = Simulation(draw_instance(rng), seed)
        for _ in range(300):
            if simulation.advance() is not Outcome.DECIDE:
                break
            seen |= {simulation.apply(draw_decision(rng, simulation)) for _ in range(5)}
        kinds |= set(simulation.log().events["kind"].tolist())
    # here every job runs on every type (else: tests/problem/test_gpu_types.py),
    # none shares GPUs (else: tests/simulator/test_sharing.py), and none is elastic
    # (else: tests/simulator/test_elastic.py), refused (else: tests/problem/test_deadlines.py) or in parts
    # (else: tests/simulator/test_node_counts.py), and none fails (else: tests/core/test_failures.py)
    elsewhere = (
        CANNOT_RUN, MAY_NOT_SHARE, NO_MEMORY, BAD_SUB_STEPS, BAD_SIZE, HAS_STARTED, IS_REFUSED, IS_CLOSED, SPLITS_PART
    )  # fmt: skip
    assert seen == set(REFUSALS) - {REFUSALS[code] for code in elsewhere}
    assert kinds == set(range(len(EVENT_KINDS))) - {RESIZE, REFUSE, FAIL}
