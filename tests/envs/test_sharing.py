"""The environment where jobs share GPUs: masks, decisions, observations and logs agree with the simulator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import failing
from scheduler_player import play_scheduler, wide_open

from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.observation.registry import ARRAYS
from gpusched_env.envs.observation.sharing import COMPANY, PAIRS, SHARED
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import Scenario, WorkloadSpec, get_scenario
from gpusched_env.sharing import Sharing, synthetic
from gpusched_env.simulator import Decision, Scheduler, Start, simulate
from gpusched_env.simulator.view import ClairvoyantView, ClusterView

SHARING_TABLES = {one.name: one.columns for one in ARRAYS if one.group is SHARED}

WIDE: dict[str, Any] = dict(
    queue_window=4, running_window=2, partner_window=3, sub_batches=3, running_order="longest",
    rules=("pack", "share-first-fit", "share-best-benefit"),
)  # fmt: skip


def small(limit: int = 2, jobs: int = 14) -> Scenario:
    """Sixteen GPUs, jobs that fill them, and a random slowdown for every ordered pair of models."""
    scenario: Scenario = get_scenario(f"bsbf-physical-30-v1:jobs={jobs},span_s=600,batch=0.6")
    return scenario.replace(sharing=Sharing(limit, synthetic(3)))


class TwoJobs(Scenario):
    """One node of four GPUs; A arrives at 0, 4 GPUs, 100 s; B arrives at 10, 4 GPUs, 20 s."""

    def instance(self, seed: int) -> Instance:
        workload = Workload.from_columns(np.array([0.0, 10.0]), [4, 4], iterations=np.array([100.0, 20.0]))
        return Instance(self.cluster, workload, self.network, self.semantics, self.sharing)


def two_jobs(xi: float) -> Scenario:
    spec = WorkloadSpec("synthetic:poisson", {"rate_per_s": 1.0, "mean_duration_s": 1.0}, profiles="unit", jobs=2)
    return TwoJobs("two", "", (NodeGroup(1, 4),), spec, Network("none"), Semantics(), sharing=Sharing(2, xi))


def room(env: ClusterEnv, job: int, option: int) -> np.ndarray:
    """bool [G]: GPUs with a seat, enough memory and only allowed partners for a job, from the tables alone."""
    simulation = env.simulation
    tables, kinds = simulation.instance.sharing_tables, simulation.instance.job_class
    assert tables is not None
    residents = ClusterView(simulation).residents
    options = simulation.arrays.replicas["sub_batch"][simulation.arrays.jobs["replica"]]
    fine = np.zeros(residents.shape[1], bool)
    for gpu in range(len(fine)):
        here = residents[residents[:, gpu] >= 0, gpu]
        used = tables.memory[kinds[here], options[here], 0].sum()
        welcome = np.isfinite(tables.interference[kinds[job], kinds[here], 0]).all()
        fits = used + tables.memory[kinds[job], option, 0] <= 1 + 1e-9
        fine[gpu] = len(here) < simulation.instance.gpu_jobs and welcome and fits
    return fine


def places(env: ClusterEnv, job: int, partner: int, option: int) -> list[int]:
    """GPUs of a start beside a partner with a sub-batch: the partner's, then free ones; empty if too few."""
    residents = ClusterView(env.simulation).residents
    fine, gang = room(env, job, option), int(env.simulation.instance.workload.jobs["gpus"][job])
    beside = np.flatnonzero(fine & (residents == partner).any(axis=0))
    free = np.flatnonzero(fine & (residents < 0).all(axis=0))
    return [*beside, *free][:gang] if len(beside) and len(beside) + len(free) >= gang else []


def refused(env: ClusterEnv, decision: Decision) -> bool:
    return env.simulation.rehearsal().apply(decision) != ""


@pytest.mark.parametrize(("limit", "sizes"), [(2, 3), (3, 0), (2, 0), (1, 2)])
def test_the_mask_marks_accepted_actions_and_decisions_round_trip(limit: int, sizes: int) -> None:
    env = ClusterEnv(small(limit), **(WIDE | {"sub_batches": sizes}))
    tables = env.scenario.instance(1).sharing_tables
    assert tables is not None
    rng = np.random.default_rng(0)
    _, info = env.reset(seed=1)
    joined = 0
    for step in range(150):
        windows, jobs = env.windows, env.encoder.queue_slots
        for action in range(windows.first_preemption) if step % 5 == 0 else ():
            slot, place = divmod(action, windows.slot_starts)
            place, size = divmod(place, max(sizes, 1))
            job = int(jobs[slot])
            decision = env.encoder.decision_of(action)
            assert isinstance(decision, Start)
            assert refused(env, decision) == (not env.mask[action])
            if job < 0:
                assert not env.mask[action]
            elif place >= len(windows.rules):
                partner = int(env.encoder.partner_slots[place - len(windows.rules)])
                options = np.flatnonzero(tables.sub_steps[env.simulation.instance.job_class[job]])
                tried = options[options == size] if sizes else options
                found = [places(env, job, partner, int(o)) for o in tried] if partner >= 0 else []
                assert bool(env.mask[action]) == any(found)
                if env.mask[action]:
                    assert list(decision.gpus or ()) == next(gpus for gpus in found if gpus)
            elif env.mask[action]:
                assert env.encoder.action_of(decision) == action
        feasible = np.flatnonzero(env.mask)
        starts = feasible[feasible < windows.first_preemption]
        action = int(rng.choice(starts if len(starts) and rng.random() < 0.7 else feasible))
        place = action % windows.slot_starts // max(sizes, 1)
        joined += action < windows.first_preemption and place >= len(windows.rules)
        _, _, terminated, truncated, info = env.step(action)
        assert info["refusals"] == 0
        if terminated or truncated:
            break
    assert (joined > 0) == (limit > 1)


class Sharer(Scheduler):
    """Shortest job first, beside running jobs: on explicit GPUs that the core finds, or by the name of the rule."""

    clairvoyant = True

    def __init__(self, by_name: bool) -> None:
        self.by_name = by_name

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        assert isinstance(view, ClairvoyantView)
        order = view.waiting[np.argsort(view.remaining_s(view.waiting), kind="stable")]
        if not self.by_name:
            yield from view.shared_schedule(order)
            return
        for job in order.tolist():
            if view.can_place(job, "share-best-benefit"):
                yield Start(job, "share-best-benefit")


@pytest.mark.parametrize("by_name", [False, True])
def test_schedulers_that_share_play_alike_through_the_environment(by_name: bool) -> None:
    scenario = small(jobs=24)
    through = play_scheduler(wide_open(scenario, 5, rules=("share-best-benefit",)), Sharer(by_name), 5)
    direct = simulate(scenario.instance(5), Sharer(by_name), seed=5)
    assert through.digest() == direct.digest()
    assert direct.digest() == simulate(scenario.instance(5), Sharer(not by_name), seed=5).digest()


@pytest.mark.parametrize(("xi", "sharing_s", "ends"), [(1.2, 59.0, (104.0, 34.0)), (2.0, 75.0, (120.0, 50.0))])
def test_theorem_1_is_observed_before_the_start_and_holds_after_it(xi: float, sharing_s: float, ends: Any) -> None:
    """docs/sjf_bsbf.md, Theorem 1: T_seq is 100 s; T_con is computed by hand."""
    options: dict[str, Any] = dict(queue_window=1, running_window=0, partner_window=1, skip_forced_waits=False)
    env = ClusterEnv(two_jobs(xi), **options)
    env.reset(seed=0)
    env.step(0)
    observation, *_ = env.step(env.windows.wait_action)
    assert env.simulation.now_s == 10.0
    assert observation["pairs"][0] == pytest.approx([1, 1, 1 - 1 / xi, 1 - 1 / xi, 100 / (100 + sharing_s)], abs=1e-6)
    assert observation["seats"] == pytest.approx([1, 0, 0])
    observation, *_ = env.step(1)
    assert observation["seats"] == pytest.approx([0, 1, 1 - 1 / xi])
    while not env.step(env.windows.wait_action)[2]:
        pass
    assert job_times(env.simulation.instance, env.event_log())["finish_s"] == pytest.approx(ends, rel=1e-9)
    hidden = ClusterEnv(two_jobs(xi), pair_benefit=False, **options)
    hidden.reset(seed=0)
    hidden.step(0)
    assert hidden.step(hidden.windows.wait_action)[0]["pairs"][0, PAIRS.benefit] == 0.0


def squash(seconds: Any) -> Any:
    return np.minimum(np.log1p(np.maximum(seconds, 0.0) / 60.0) / np.log1p(30 * 86_400 / 60), 1.0)


def expected(env: ClusterEnv) -> dict[str, np.ndarray]:
    """Columns that follow from the jobs on each GPU, in plain NumPy."""
    simulation, windows = env.simulation, env.windows
    instance, state, residents = simulation.instance, simulation.arrays, ClusterView(simulation).residents
    tables, kinds, gpus = instance.sharing_tables, instance.job_class, residents.shape[1]
    assert tables is not None
    counts = (residents >= 0).sum(axis=0)

    def xi(job: int) -> float:
        others = residents[:, (residents == job).any(axis=0)].ravel()
        others = others[(others >= 0) & (others != job)]
        return max([1.0, *tables.interference[kinds[job], kinds[others], 0]])

    view = ClairvoyantView(simulation)
    partners = np.zeros((windows.partner_window, len(SHARING_TABLES["partners"])))
    for slot, job in enumerate(env.encoder.partner_slots.tolist()):
        if job >= 0:
            replica, held = state.replicas[state.jobs["replica"][job]], (residents == job).any(axis=0)
            left_s = view.iterations_left(np.array([job]))[0] * replica["solo_s"]
            size = int(replica["sub_batch"])
            partners[slot] = [
                1, held.sum() / gpus, squash(simulation.now_s - replica["start_s"]), squash(left_s),
                tables.memory[kinds[job], size, 0], 1 - 1 / tables.sub_steps[kinds[job], size],
                (counts[held] < instance.gpu_jobs).mean(), (counts[held] > 1).mean(), 1 - 1 / xi(job),
            ]  # fmt: skip
    running = set(residents[residents >= 0].tolist())
    loss = np.mean([1 - 1 / xi(job) for job in running]) if running else 0.0
    sizes = np.zeros((windows.queue_window * windows.sub_batches, 1))
    for slot, job in enumerate(env.encoder.queue_slots.tolist()):
        for size in range(windows.sub_batches) if job >= 0 else ():
            if size < tables.sub_steps.shape[1] and tables.sub_steps[kinds[job], size]:
                sizes[slot * windows.sub_batches + size] = min(tables.memory[kinds[job], size, 0], 1)
    return {"partners": partners, "seats": np.array([(counts == 1).mean(), (counts > 1).mean(), loss]), "memory": sizes}


@pytest.mark.parametrize("scenario", [small(3), failing(small(3), 60.0)], ids=["plain", "failures"])
def test_observations_equal_their_definitions(scenario: Scenario) -> None:
    env = ClusterEnv(scenario, **WIDE)
    rng = np.random.default_rng(1)
    observation, _ = env.reset(seed=2)
    seen: dict[str, list[np.ndarray]] = {key: [] for key in SHARING_TABLES}
    for _ in range(200):
        assert observation in env.observation_space
        assert all(value.min() >= 0 and value.max() <= 1 for value in observation.values())
        truth = expected(env)
        assert observation["partners"] == pytest.approx(truth["partners"], abs=2e-5)
        assert observation["seats"] == pytest.approx(truth["seats"], abs=2e-5)
        assert observation["sub_batches"][:, :1] == pytest.approx(truth["memory"], abs=2e-5)
        for key, values in seen.items():
            values.append(np.atleast_2d(observation[key]))
        feasible = np.flatnonzero(env.mask)
        starts = feasible[feasible < env.windows.first_preemption]
        observation, _, over, truncated, _ = env.step(
            int(rng.choice(starts if len(starts) and rng.random() < 0.6 else feasible))
        )
        if over or truncated:
            break
    for key, values in seen.items():  # a constant column would not be tested
        assert np.ptp(np.concatenate(values), axis=0).all(), key


def test_an_agent_without_clairvoyance_sees_no_run_times() -> None:
    options = WIDE | {"rules": ("pack", "share-first-fit"), "running_order": "start", "clairvoyant": False}
    env = ClusterEnv(small(), **options)
    rng = np.random.default_rng(3)
    observation, _ = env.reset(seed=2)
    for _ in range(60):
        assert not observation["pairs"][:, PAIRS.benefit].any()
        assert not observation["partners"][:, COMPANY.left].any()
        observation, _, over, _, _ = env.step(int(rng.choice(np.flatnonzero(env.mask))))
        if over:
            break


def test_impossible_arguments_and_actions_are_named() -> None:
    wrong: dict[str, Any]
    for name in ("partner_window", "sub_batches"):
        wrong = {name: 2}
        with pytest.raises(ScenarioError, match=f"{name} is 2, but jobs of this scenario do not share GPUs"):
            ClusterEnv("tiny-v1", **wrong)
        wrong = {name: -1}
        with pytest.raises(ScenarioError, match=f"{name} is -1"):
            ClusterEnv(small(), **wrong)
    with pytest.raises(ScenarioError, match="needs run times"):
        ClusterEnv(small(), rules=("share-best-benefit",), clairvoyant=False)
    env = gym.make("gpusched/Sharing-v0").unwrapped
    env.reset(seed=1)
    for action in (-1, env.action_space.n, float("nan"), 0.5, None):  # type: ignore[attr-defined]
        with pytest.raises(GpuschedError, match="whole number from 0 to"):
            env.step(action)
    assert isinstance(env, ClusterEnv)
    with pytest.raises(GpuschedError, match="names one of 4 sub-batches"):
        env.encoder.action_of(Start(int(env.encoder.queue_slots[0]), "pack"))
