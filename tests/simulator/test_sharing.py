"""Jobs that share GPUs under random decisions: limits of jobs and memory hold on every GPU, and no work is lost."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import begin, check_counts, mixed_profiles, random_workload, state_bytes, two_types
from hypothesis import given, settings
from hypothesis import strategies as st
from sharing_play import (
    check_shared,
    may_join,
    options_of,
    random_tables,
    reasons_against,
    residents,
    with_tables,
)

from gpusched_env.core.refusals import REFUSALS
from gpusched_env.core.state import WAITING, allocate
from gpusched_env.metrics import held_gpus, job_times, lower_bounds, segments, summarise, validate
from gpusched_env.metrics.co_residents import changes
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import TIE_ORDERS, Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.sharing import Sharing
from gpusched_env.simulator import (
    PLACEMENT_RULES,
    ClusterView,
    Decision,
    Lease,
    Outcome,
    Preempt,
    Simulation,
    Start,
    Wait,
)
from tests.simulator.test_invariants import MAY_REFUSE, draw_network, work_of

CLUSTERS = [Cluster.parse("1x3"), Cluster.parse("4x2/2"), two_types(), two_types((2, 1), (2, 4), 2)]
WORDS = {
    "seat": "not free", "gpus": "not free", "gang": "gang size", "model": "must not share", "memory": "memory",
    "steps": "sub-steps",
}  # fmt: skip


def draw_instance(rng: np.random.Generator, limit: int | None = None, tiers: bool | None = None) -> Instance:
    cluster = CLUSTERS[rng.integers(len(CLUSTERS))]
    rules = Semantics(
        round_s=float(rng.choice([0, 0, 60, 37.3])),
        checkpoint_s=float(rng.choice([0, 30, 11.1])),
        restore_s=float(rng.choice([0, 30, 300])),
        start_s=float(rng.choice([0, 0, 5])),
        tie_order=str(rng.choice(TIE_ORDERS)),
        time_limit_s=float(rng.choice([np.inf, np.inf, 2_000])),
    )
    workload = random_workload(rng, int(rng.integers(1, 20)), cluster.gpus, cluster.gpu_types, 30.0)
    network = Network() if tiers else draw_network(rng)
    sharing = Sharing(limit or int(rng.choice([1, 2, 2, 3])), 1.0)
    instance = Instance(cluster, workload, network, rules, sharing)
    return with_tables(instance, **random_tables(rng, instance))


def draw_decision(rng: np.random.Generator, simulation: Simulation) -> Decision:
    jobs, gpus = len(simulation.instance.workload), simulation.instance.cluster.gpus
    job = int(rng.integers(0, jobs))
    kind = rng.random()
    steps = None if rng.random() < 0.6 else int(rng.choice([1, 2, 3, 4]))
    if kind < 0.35:
        return Start(job, str(rng.choice(list(PLACEMENT_RULES))), sub_steps=steps, share=bool(rng.random() < 0.3))
    if kind < 0.85:
        gang = int(simulation.instance.workload.jobs["gpus"][job]) + int(rng.random() < 0.05)
        open_seats = [g for g, here in enumerate(residents(simulation)) if len(here) < simulation.instance.gpu_jobs]
        pool = np.arange(-1, gpus + 1) if rng.random() < 0.1 or len(open_seats) < gang else np.array(open_seats)
        choice = rng.choice(pool, gang, replace=bool(rng.random() < 0.05 or gang > len(pool)))
        return Start(job, gpus=tuple(choice.tolist()), share=bool(rng.random() < 0.9), sub_steps=steps)
    if kind < 0.9:
        return Lease(job, simulation.now_s + float(rng.choice([rng.uniform(-100, 500), 100.0, np.inf])))
    return Preempt(job) if kind < 0.96 else Wait(simulation.now_s + float(rng.uniform(1, 500)))


def check_start(simulation: Simulation, decision: Start, reasons: set[str], fits: bool, reason: str) -> None:
    """Compare the result of a start with the expectation before it."""
    if decision.gpus is not None:
        if "too few free" in reason:
            reason = "not free"
        assert (reason == "") == (not reasons), (decision, reason, reasons)
        assert not reason or any(WORDS[word] in reason for word in reasons), (decision, reason, reasons)
    elif decision.rule == "share-first-fit" and decision.sub_steps is None:
        assert (reason == "") == fits, (decision, reason)


def fits_somewhere(simulation: Simulation, job: int) -> bool:
    """Whether enough GPUs are free or have room for a job with one of its sub-batches."""
    gang, gpus = simulation.instance.workload.jobs["gpus"][job], range(simulation.instance.cluster.gpus)
    if sum(not here for here in residents(simulation)) >= gang:
        return True
    if simulation.instance.gpu_jobs == 1:
        return False
    return any(
        sum(may_join(simulation, job, gpu, option) == "" for gpu in gpus) >= gang
        for option in options_of(simulation, job)
    )


def check_view(simulation: Simulation) -> None:
    view = ClusterView(simulation)
    jobs = simulation.arrays.replicas["job"]
    told = [[int(job) for job in column if job >= 0] for column in view.residents.T]
    assert told == [jobs[here].tolist() for here in residents(simulation)]
    assert view.holders.tolist() == [here[0] if here else -1 for here in told]
    assert view.free_gpus == sum(not here for here in told)


def play(seed: int, limit: int | None = None, points: int = 120) -> tuple[Instance, Simulation, Outcome, set[str]]:
    rng = np.random.default_rng(seed)
    instance = draw_instance(rng, limit)
    simulation, outcome, seen = Simulation(instance, seed), Outcome.DECIDE, set()
    left = work_of(simulation)
    for _ in range(points):
        outcome = simulation.advance()
        check_counts(simulation)
        check_shared(simulation)
        now_left = work_of(simulation)
        assert (now_left <= left).all(), "work grew"
        left = now_left
        if outcome is not Outcome.DECIDE:
            break
        for _ in range(int(rng.integers(0, 6))):
            decision = draw_decision(rng, simulation)
            waits = isinstance(decision, Start) and simulation.arrays.jobs["status"][decision.job] == WAITING
            expected: tuple[set[str], bool] = set(), False
            if waits and isinstance(decision, Start):
                against = reasons_against(simulation, decision) if decision.gpus is not None else set()
                expected = against, fits_somewhere(simulation, decision.job)
            network = ClusterView(simulation).network
            asks = waits and not expected[0] and isinstance(decision, Start) and decision.sub_steps == 1
            promised = network.what_if_s(decision.job, decision.gpus) if asks and decision.gpus else None
            before, free = state_bytes(simulation), ClusterView(simulation).free_gpus
            reason = simulation.apply(decision)
            seen.add(reason)
            if reason:
                assert state_bytes(simulation) == before, decision
            if promised is not None:
                assert network.iteration_s(np.array([decision.job]))[0] == pytest.approx(promised, rel=1e-12)
            if waits and isinstance(decision, Start):
                check_start(simulation, decision, *expected, reason)
                gang = instance.workload.jobs["gpus"][decision.job]
                if decision.gpus is None and not reason and free >= gang:
                    here = residents(simulation)
                    number = simulation.arrays.jobs["replica"][decision.job]
                    assert all(len(some) == 1 for some in here if number in some), "shared though GPUs were free"
                exact = decision.gpus is None and not decision.rule.startswith("share") and decision.sub_steps is None
                if exact and decision.rule not in MAY_REFUSE:
                    assert (reason == "") == (free >= gang)
            check_counts(simulation)
            check_shared(simulation)
            check_view(simulation)
            assert (work_of(simulation) == left).all(), "a decision changed work"
    return instance, simulation, outcome, seen


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_random_play_keeps_every_invariant(seed: int) -> None:
    instance, simulation, outcome, _ = play(seed)
    log = simulation.log()
    validate(instance, log, complete=outcome in (Outcome.DONE, Outcome.TIME_LIMIT))
    times = job_times(instance, log, end_s=simulation.now_s)
    inside = times["arrival_s"] <= simulation.now_s
    life = np.where(np.isnan(times["jct_s"]), simulation.now_s - times["arrival_s"], times["jct_s"])
    parts = times["queueing_s"] + times["service_s"] + times["overhead_s"]
    np.testing.assert_allclose(parts[inside], life[inside], rtol=1e-9, atol=1e-6)
    assert (times["communication_s"] >= -1e-9 * times["service_s"]).all()
    held = held_gpus(instance, log)
    assert held.values.max(initial=0) <= instance.cluster.gpus
    area = float(held.integral(simulation.now_s))
    assert area == pytest.approx(simulation.arrays.world["busy_gpu_seconds"], rel=1e-9, abs=1e-6)


def test_random_play_meets_every_refusal_of_sharing() -> None:
    """The property above would be vacuous if no jobs shared or no decision were refused."""
    seen: set[str] = set()
    most = {2: 0, 3: 0}
    steps: set[int] = set()
    for seed in range(24):
        limit = 2 + seed % 2
        instance, simulation, _, reasons = play(seed, limit, 60)
        seen |= reasons
        log = simulation.log()
        steps |= set(log.events["sub_steps"].tolist())
        holders = np.zeros(instance.cluster.gpus, int)
        for change in changes(log, segments(instance, log)):
            holders[change.gang] += 1 if change.joins else -1
            most[limit] = max(most[limit], holders.max())
    assert {text for text in REFUSALS if "share" in text or "memory" in text or "sub-steps" in text} <= seen
    assert most == {2: 2, 3: 3}
    assert steps == {1, 2, 4}


def drive(simulation: Simulation, seed: int, points: int = 60) -> None:
    """Random decisions of a seed."""
    rng = np.random.default_rng(seed)
    for _ in range(points):
        if simulation.advance() is not Outcome.DECIDE:
            break
        for job in ClusterView(simulation).waiting[:4].tolist():
            simulation.apply(Start(job, str(rng.choice(["share-first-fit", "share-best-benefit", "pack"]))))
        running = ClusterView(simulation).running
        if len(running) and rng.random() < 0.2:
            simulation.apply(Preempt(int(rng.choice(running))))


def shared_and_not() -> list[Instance]:
    """Instances of different size, with two or three jobs a GPU, and one without sharing."""
    found = [draw_instance(np.random.default_rng(seed), limit) for seed, limit in ((3, 2), (4, 3), (8, 2))]
    rng = np.random.default_rng(5)
    found.insert(1, Instance(CLUSTERS[1], random_workload(rng, 12, 8), None, Semantics()))
    return found


def test_a_batch_plays_like_single_simulations() -> None:
    instances = shared_and_not()
    state = allocate(instances, range(len(instances)))
    for number, instance in enumerate(instances):
        single, together = Simulation(instance, number), Simulation(instance, arrays=state.handle(number))
        for simulation in (single, together):
            drive(simulation, number)
        assert together.log().digest() == single.log().digest()


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_no_run_that_shares_beats_the_bounds(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instance = draw_instance(rng, int(rng.integers(1, 4)), tiers=True)
    instance.sharing_tables.interference[...] = 1.0 + rng.choice([0.0, 0.1, 1.0]) * rng.random()
    simulation = Simulation(instance)
    rule = str(rng.choice(["share-first-fit", "share-best-benefit"]))
    while simulation.advance() is Outcome.DECIDE:
        for job in ClusterView(simulation).waiting.tolist():
            simulation.apply(Start(job, rule))
    if simulation.finished == len(instance.workload):
        numbers, bounds = summarise(instance, simulation.log()), lower_bounds(instance)
        assert numbers["mean_jct_s"] >= bounds["mean_jct_s"] * (1 - 1e-9)
        assert numbers["makespan_s"] >= bounds["makespan_s"] * (1 - 1e-9)
        assert numbers["utilisation"] <= 1.0 + 1e-12


@pytest.mark.parametrize("limit", [None, 1, 2])
def test_what_if_works_when_every_seat_is_taken(limit: int | None) -> None:
    """``what_if_s`` needs a ring beyond the number of seats; the answer is that of the idle network."""
    seats = 4 * (limit or 1)
    jobs = Workload.from_columns(
        np.zeros(seats + 1), [*[1] * seats, 4], np.full(seats + 1, 100.0), profiles=mixed_profiles()
    )
    network = Network(
        "topology",
        topology=TopologySpec("single-switch", nic_GBps=1.0, gpu_GBps=2.0, host_bus_GBps=1.5),
        contention=Contention("maxmin"),
    )
    instance = Instance(
        Cluster.parse("4x1"), jobs, network, Semantics(), None if limit is None else Sharing(limit, 1.25)
    )
    idle, full = begin(instance), begin(instance)
    for job in range(seats):
        assert full.apply(Start(job, gpus=(job % 4,), share=True)) == ""
    asked = ClusterView(full).network.what_if_s(seats, range(4))
    alone = ClusterView(idle).network.what_if_s(seats, range(4))
    assert asked == pytest.approx(alone * (1.25 if limit else 1.0), rel=1e-12)
    check_counts(full)
    drive(full, 1)
    validate(instance, full.log(), complete=False)
