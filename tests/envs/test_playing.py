"""Every baseline gives the same log through env.step as in a direct run."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from helpers import small_scenario
from scheduler_player import play_scheduler, wide_open

from gpusched_env.baselines import list_baselines, make_scheduler
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.event_log import PREEMPT
from gpusched_env.metrics import validate
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios import Scenario, WorkloadSpec, get_scenario
from gpusched_env.simulator import ClusterView, Decision, Preempt, Resize, Scheduler, Simulation, Start, Wait, simulate
from gpusched_env.simulator.decisions import Refuse
from tools.portability.problems import EPISODES
from tools.portability.problems import small_scenario as small_scenario_of

RULES = ("pack", "consolidate", "rack", "yarn")
SCENARIOS = {
    "tiny-v1": lambda: get_scenario("tiny-v1"),
    "philly-60": lambda: small_scenario(60),
    "philly-60-rounds": lambda: small_scenario(60, semantics=Semantics(round_s=300.0)),
    "rar-160-v0": lambda: get_scenario("rar-160-v0"),
    "leaf-spine-256-v1": lambda: fewer_jobs("leaf-spine-256-v1", 80),
    "leaf-spine-2048-v1": lambda: fewer_jobs("leaf-spine-2048-v1", 40),
    "dally-drift-v1": lambda: get_scenario("dally-drift-v1:jobs=60"),  # links change in the middle
}


def fewer_jobs(name: str, jobs: int) -> Scenario:
    scenario = get_scenario(name)
    return scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=jobs))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("name", list_baselines({"links"}))
def test_every_baseline_plays_alike_directly_and_through_the_environment(name: str, scenario: str) -> None:
    drawn, seed = SCENARIOS[scenario](), 200_000
    through = play_scheduler(wide_open(drawn, seed, rules=RULES), make_scheduler(name), seed)
    direct = simulate(drawn.instance(seed), make_scheduler(name), seed=seed)
    validate(drawn.instance(seed), through)
    assert through.digest() == direct.digest()


@pytest.mark.parametrize(
    ("scenario", "spec"),
    [
        *(("pollux-64-v0:jobs=24", spec) for spec in ("max-min", "optimus", "afs", "tiresias", "fifo")),
        *(("cohort-256-v0:jobs=40", spec) for spec in ("kueue-reclaim", "drf", "fifo-skip", "slurm")),
    ],
)
def test_schedulers_of_sizes_and_tenants_play_alike_directly_and_through_the_environment(
    scenario: str, spec: str
) -> None:
    drawn = get_scenario(scenario)
    env = wide_open(drawn, 3, tenant_window=3 if "cohort" in scenario else 0)
    direct = simulate(drawn.instance(3), make_scheduler(spec), seed=3)
    assert play_scheduler(env, make_scheduler(spec), 3).digest() == direct.digest()


@pytest.mark.parametrize("kind", [name for name, (_, _, options) in EPISODES.items() if "lease_s" not in options])
def test_any_episode_equals_the_direct_run_of_its_decisions(kind: str) -> None:
    """Decisions are the meanings of actions, and stand for them. A lease is renewed without a decision of the agent."""
    name, jobs, options = EPISODES[kind]
    env = ClusterEnv(small_scenario_of(name, jobs), skip_forced_waits=False, **options | {"least_run_s": 0.0})
    rng, over, wait = np.random.default_rng(2), False, env.windows.wait_action
    env.reset(seed=4)
    simulation = Simulation(env.scenario.instance(4), 4)
    simulation.advance()
    kinds = set()
    while not over:
        feasible = np.flatnonzero(env.mask)
        action = int(rng.choice(feasible[feasible < wait] if rng.random() < 0.6 and feasible[0] < wait else feasible))
        decision, meant = env.encoder.decision_of(action), env.action_meaning(action)
        kinds.add(meant.kind)
        if meant.job is not None and meant.partner is None:
            assert isinstance(decision, Start | Preempt | Resize | Refuse)
            assert (decision.job, env.action_of(decision)) == (meant.job, action)
        *_, over, truncated, info = env.step(action)
        assert not truncated
        if decision is not None:
            assert simulation.apply(decision) == ""
        if decision is None or isinstance(decision, Wait):
            simulation.advance()
    assert simulation.log().digest() == info["digest"]
    validate(simulation.instance, simulation.log())
    assert {one.kind for one in map(env.action_meaning, range(env.windows.actions))} - kinds <= {"preempt"}


def test_long_episodes_are_alike_although_the_environment_empties_the_log_buffer_earlier() -> None:
    """More than 1,024 events:
    the log buffer of the direct run fills at an arrival, that of the environment never fills.
    """
    scenario = get_scenario("poisson-64-v1")
    spec = scenario.workload
    small = scenario.with_workload(spec.source, parameters=spec.parameters, jobs=1_500, profiles="unit", load=0.2)
    small = small.replace(groups=(NodeGroup(16, 8),))
    for seed in range(200_000, 200_004):
        env = wide_open(small, seed, queue_window=64, running_window=64)
        assert play_scheduler(env, make_scheduler("fifo"), seed).digest() == (
            simulate(small.instance(seed), make_scheduler("fifo"), seed=seed).digest()
        )


def test_playing_refuses_windows_that_hide_decisions() -> None:
    scenario = get_scenario("tiny-v1")
    with pytest.raises(SchedulerError, match="skip_forced_waits=False"):
        play_scheduler(ClusterEnv(scenario), make_scheduler("fifo"), 0)
    with pytest.raises(GpuschedError, match="rules that include 'consolidate'"):
        play_scheduler(wide_open(scenario, 0), make_scheduler("fifo:placement=consolidate"), 0)
    jobs = len(scenario.instance(200_002).workload)
    sizes = rf"queue_window={jobs}, running_window=8, "
    with pytest.raises(SchedulerError, match=f"in no slot of queue_window=1, .* {sizes}"):
        play_scheduler(wide_open(scenario, 200_002, queue_window=1), make_scheduler("sjf"), 200_002)
    with pytest.raises(SchedulerError, match=f"in no slot of running_window=1, .* {sizes}"):
        play_scheduler(wide_open(scenario, 200_002, running_window=1), make_scheduler("srtf"), 200_002)
    with pytest.raises(SchedulerError, match="migration=True"):
        play_scheduler(wide_open(one_job_scenario(), 0, rules=("pack", "random"), migration=False), Mover(), 0)
    with pytest.raises(SchedulerError, match="truncated"):
        play_scheduler(wide_open(scenario, 0, step_limit=5), make_scheduler("fifo"), 0)


def test_the_windows_that_the_error_names_suffice() -> None:
    """An agent's own windows hide a job that LAS preempts; windows of the sizes in the message do not."""
    scenario = small_scenario(150)
    options: dict[str, Any] = {
        "skip_forced_waits": False, "migration": True, "least_run_s": 0.0, "step_limit": 10**6,
    }  # fmt: skip
    small: dict[str, Any] = {"queue_window": 8, "running_window": 2}
    with pytest.raises(SchedulerError) as error:
        play_scheduler(ClusterEnv(scenario, **options, **small), make_scheduler("las"), 200_000)
    named = re.findall(r"(queue_window|running_window)=(\d+)", str(error.value).partition("with ")[2])
    env = ClusterEnv(scenario, **options, **{name: int(size) for name, size in named})
    direct = simulate(scenario.instance(200_000), make_scheduler("las"), seed=200_000)
    assert play_scheduler(env, make_scheduler("las"), 200_000).digest() == direct.digest()


def test_small_windows_suffice_for_schedulers_that_start_the_first_jobs_of_the_queue() -> None:
    scenario = small_scenario(150)
    env = ClusterEnv(scenario, queue_window=1, running_window=0, skip_forced_waits=False, step_limit=10**6)
    through = play_scheduler(env, make_scheduler("fifo"), 200_000)
    assert through.digest() == simulate(scenario.instance(200_000), make_scheduler("fifo"), seed=200_000).digest()


def test_decisions_that_a_direct_run_refuses_are_refused_in_small_windows_too() -> None:
    """Jobs that do not exist, have not arrived, have finished, wait, or are being checkpointed."""

    class Careless(Scheduler):
        def __init__(self) -> None:
            self.preempted = False

        def decide(self, view: ClusterView) -> Iterable[Decision]:
            arrived = len(view.gpus)
            yield from [Start(60, "pack"), Start(-1, "pack"), Preempt(60), Preempt(-1)]
            yield from [Start(arrived, "pack"), Preempt(arrived)] if arrived < 60 else []
            yield from [Start(0, "pack"), Preempt(0)] if 0 not in view.running and 0 not in view.waiting else []
            yield from [Preempt(int(job)) for job in view.waiting[:1]]
            yield from [Start(int(job), "pack") for job in view.running]
            yield from view.list_schedule(view.waiting[:1])
            if not self.preempted and len(view.running) <= 8 and len(view.waiting):
                self.preempted = True
                yield from [Preempt(int(view.running[0])), Preempt(int(view.running[0]))]

    scenario = small_scenario(60)
    env = ClusterEnv(
        scenario, queue_window=1, running_window=8, skip_forced_waits=False, least_run_s=0.0, step_limit=10**6
    )
    through = play_scheduler(env, Careless(), 200_000)
    direct = simulate(scenario.instance(200_000), Careless(), seed=200_000)
    assert through.digest() == direct.digest()
    assert (through.events["kind"] == PREEMPT).sum() == 1


def test_playing_accepts_wrapped_environments() -> None:
    scenario = get_scenario("tiny-v1")
    env = gym.wrappers.RecordEpisodeStatistics(wide_open(scenario, 3))
    assert play_scheduler(env, make_scheduler("fifo"), 3).digest() == (
        simulate(scenario.instance(3), make_scheduler("fifo")).digest()
    )


class Later(Scheduler):
    """Start the only job after a pause."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.now_s < 10:
            yield Wait(10.0)
        else:
            yield from view.list_schedule(view.waiting)


class Mover(Scheduler):
    """Preempt the only job at 5 s, although no job waits, and start it elsewhere."""

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        if view.now_s < 5:
            yield from view.list_schedule(view.waiting)
            yield Wait(5.0)
        elif len(view.running) and view.now_s == 5:
            yield Preempt(int(view.running[0]))
            yield from view.list_schedule(view.waiting, "random")


def one_job_scenario(**rules: float) -> Scenario:
    spec = WorkloadSpec("synthetic:batch", {"durations": "constant", "mean_duration_s": 10.0}, profiles="unit", jobs=1)
    return Scenario("one", "", (NodeGroup(2, 2),), spec, semantics=Semantics(checkpoint_s=0, restore_s=0, **rules))


@pytest.mark.parametrize(("scheduler", "end"), [(Later, 20.0), (Mover, 10.0)])
def test_waits_and_migrations_play_alike_directly_and_through_the_environment(scheduler: type, end: float) -> None:
    scenario = one_job_scenario()
    direct = simulate(scenario.instance(0), scheduler(), seed=0)
    assert direct.events[-1]["time_s"] == end
    env = wide_open(scenario, 0, rules=("pack", "random"))
    assert play_scheduler(env, scheduler(), 0).digest() == direct.digest()


def test_a_time_limit_ends_a_played_run_as_it_ends_a_direct_one() -> None:
    scenario = one_job_scenario(time_limit_s=4.0)
    direct = simulate(scenario.instance(0), make_scheduler("fifo"))
    assert play_scheduler(wide_open(scenario, 0), make_scheduler("fifo"), 0).digest() == direct.digest()
