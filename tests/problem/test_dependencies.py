"""Jobs with earliest starts and dependencies are held until they may enter the queue."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import plain_python_digests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scheduler_player import play_scheduler, wide_open

from gpusched_env import Cluster, Instance, Semantics, Workload
from gpusched_env.baselines import make_scheduler
from gpusched_env.core.state import FINISHED, FUTURE
from gpusched_env.envs.cluster_env import ClusterEnv
from gpusched_env.envs.cluster_vector_env import ClusterVectorEnv
from gpusched_env.errors import ScheduleError, WorkloadError
from gpusched_env.event_log import ARRIVAL, REFUSE, START, EventLog
from gpusched_env.metrics import job_times, lower_bounds, summarise, validate
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.scenarios import Scenario, WorkloadSpec
from gpusched_env.simulator import Outcome, Scheduler, Simulation, Start, simulate
from gpusched_env.simulator.past import begin, moves_of

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)
KILLS = Semantics(checkpoint_s=0.0, restore_s=0.0, kill_at_limit=True)
# Schedulers with compiled loops and without; with queues of their own, leases, rounds, plans and preemption.
SCHEDULERS = (
    "fifo", "fifo-skip", "sjf", "srtf", "las", "tiresias", "slurm", "slurm-multifactor", "fifo-easy", "drf",
    "kueue-reclaim", "themis-lite", "themis", "dally", "gandiva-lite", "gavel", "sjf-bco", "delay-zaharia", "random",
    "hadar",
)  # fmt: skip


def problem(
    gpus: Sequence[int],
    seconds: Sequence[float],
    depends: Sequence[str] = (),
    begin_s: Sequence[float] = (),
    arrival_s: Sequence[float] = (),
    cluster: str = "1x4",
    rules: Semantics = FREE,
    **columns: Any,
) -> Instance:
    told = {"dependency": np.array(depends)} if len(depends) else {}
    told |= {"begin_s": np.array(begin_s, float)} if len(begin_s) else {}
    told |= {name: np.array(column) for name, column in columns.items() if name != "estimate_s"}
    limits = columns.get("estimate_s")
    arrives = arrival_s if len(arrival_s) else np.zeros(len(gpus))
    jobs = Workload.from_columns(arrives, gpus, seconds, estimate_s=limits, attributes=told)
    return Instance(Cluster.parse(cluster), jobs, semantics=rules)


def played(instance: Instance, spec: str = "fifo") -> EventLog:
    log = simulate(instance, make_scheduler(spec))
    validate(instance, log)
    return log


def entries(instance: Instance, spec: str = "fifo") -> list[float]:
    """Time at which each job enters the queue."""
    return job_times(instance, played(instance, spec))["arrival_s"].tolist()


def test_a_job_enters_the_queue_at_its_earliest_start() -> None:
    """Job 0 holds the GPUs until 30 s; job 1 asks for them from 20 s on, job 2 from 5 s on, so job 2 is first."""
    instance = problem([4, 4, 4], [30, 10, 10], begin_s=[0, 20, 0], arrival_s=[0, 0, 5])
    times = job_times(instance, played(instance))
    assert times["arrival_s"].tolist() == [0.0, 20.0, 5.0]
    assert times["first_start_s"].tolist() == [0.0, 30.0, 40.0]  # the tie order is that of submissions
    assert times["queueing_s"].tolist() == [0.0, 10.0, 35.0]
    assert times["jct_s"].tolist() == [30.0, 20.0, 45.0]
    summary = summarise(instance, played(instance))
    assert summary["mean_held_s"] == pytest.approx(20 / 3)
    assert summary["cancelled"] == 0.0
    assert summary["mean_jobs_in_system"] == pytest.approx(95 / 50)  # held jobs are not in the system


def test_a_job_that_is_held_at_the_end_of_a_run_has_no_part_in_the_mean() -> None:
    """Jobs 0 and 1 arrive at 0 and 4 s; job 2 is held until 60 s, and the run ends at 10 s."""
    rules = dataclasses.replace(FREE, time_limit_s=10.0)
    instance = problem([1, 1, 1], [5, 5, 5], begin_s=[0, 4, 60], rules=rules)
    assert summarise(instance, played(instance))["mean_held_s"] == 2.0


@pytest.mark.parametrize(
    ("text", "enters_s"),
    [
        ("after:1", 10.0),  # job 1 starts when job 0 ends
        ("after:1+2", 130.0),  # minutes, as in Slurm
        ("afterany:0", 10.0),
        ("afterok:0:1", 35.0),
        ("afterok:0,afterany:1", 35.0),
        ("afterok:0+90s", 100.0),
        ("afterany:0+0.5s", 10.5),
    ],
)
def test_each_type_of_dependency(text: str, enters_s: float) -> None:
    assert entries(problem([4, 4, 1], [10, 25, 5], ["", "", text])) == [0.0, 0.0, enters_s]


def test_a_job_that_is_submitted_after_its_dependencies_are_satisfied_is_not_held() -> None:
    instance = problem([1, 1], [10, 10], ["", "afterok:0"], arrival_s=[0, 12])
    assert entries(instance) == [0.0, 12.0]


def test_a_delay_may_reach_beyond_the_submission() -> None:
    """A think time of 60 s after job 0, which ends at 10 s."""
    assert entries(problem([1, 1], [10, 10], ["", "afterany:0+60s"], arrival_s=[0, 12])) == [0.0, 70.0]


def test_what_depends_on_the_success_of_a_killed_job_is_cancelled_and_so_is_what_depends_on_that() -> None:
    """Job 0 is killed at its limit of 20 s. Jobs 1, 3 and 6 can never run; 2, 4 and 5 may enter, each at 20 s."""
    depends = ["", "afterok:0", "afternotok:0", "afterok:1", "afterany:1", "after:3", "afternotok:2"]
    limits = [20, 50, 50, 50, 50, 50, 50]
    instance = problem([1] * 7, [100, 1, 1, 1, 1, 1, 1], depends, estimate_s=limits, rules=KILLS)
    log = played(instance)
    assert [line for line in log.lines() if "refuse" in line] == [
        "20.000000 refuse job 1", "20.000000 refuse job 3", "21.000000 refuse job 6"
    ]  # fmt: skip
    times = job_times(instance, log)
    assert times["finish_s"][[0, 2, 4, 5]].tolist() == [20.0, 21.0, 21.0, 21.0]
    summary = summarise(instance, log)
    assert (summary["finished"], summary["killed"], summary["cancelled"]) == (4.0, 1.0, 3.0)


def test_a_job_may_fail_although_its_work_is_done() -> None:
    instance = problem([1] * 3, [10, 5, 5], ["", "afterok:0", "afternotok:0"], fails=[1, 0, 0])
    times = job_times(instance, played(instance))
    assert times["finish_s"][[0, 2]].tolist() == [10.0, 15.0]
    assert np.isnan(times["finish_s"][1])


def test_a_job_that_a_scheduler_refuses_counts_as_one_that_failed() -> None:
    """ElasticFlow refuses a job that cannot meet its deadline."""
    instance = problem(
        [4, 1, 1], [100, 5, 5], ["", "afterok:0", "afternotok:0"],
        deadline_s=[10.0, np.inf, np.inf],
    )  # fmt: skip
    log = played(instance, "elasticflow")
    refused = log.events[log.events["kind"] == REFUSE]
    assert refused["job"].tolist() == [0, 1]
    assert refused["value"].tolist() == [0.0, 1.0]
    assert not np.isnan(job_times(instance, log)["finish_s"][2])


def test_of_singletons_one_runs_at_a_time() -> None:
    """Jobs 0, 2, 4 and 5 are of one user and name. Job 4 waits for 0 and 2, job 5 for all three."""
    instance = problem(
        [1] * 6, [10, 10, 20, 10, 5, 5], ["", "", "", "singleton", "singleton", "singleton"],
        user=["ann", "bob", "ann", "bob", "ann", "ann"], name=["a", "a", "a", "b", "a", "a"],
    )  # fmt: skip
    assert entries(instance) == [0.0, 0.0, 0.0, 0.0, 20.0, 25.0]


@pytest.mark.parametrize(
    ("depends", "told"),
    [
        (["afterok:1", ""], "job 0: dependency 'afterok:1': job 1 is submitted later"),
        (["afterany:1", "afterany:0"], "job 0: dependency 'afterany:1': job 1 is submitted later"),  # a circle
        (["", "afterok:1"], "job 1: dependency 'afterok:1': a job cannot depend on itself"),
        (["", "afterok:7"], "job 1: dependency 'afterok:7': no job has the id 7"),
        (["", "afterok"], "'afterok' is not understood"),
        (["", "afterok:0?afterok:1"], r"any is enough \(\?\) is not supported"),
        (["", "afterok:0+" + "9" * 400], "is not understood"),
        (["", "afterok:" + "9" * 5000], "is not understood"),
        (["", "aftercorr:0"], "types after, afterany, afterok, afternotok"),
        (["", "singleton"], "job 1: a singleton needs the attributes user and name"),
    ],
)
def test_impossible_dependencies_are_refused_with_the_job(depends: list[str], told: str) -> None:
    with pytest.raises(WorkloadError, match=told):
        problem([1, 1], [1, 1], depends)


@pytest.mark.parametrize("begin_s", [-1.0, np.nan, np.inf])
def test_an_impossible_earliest_start_is_refused(begin_s: float) -> None:
    with pytest.raises(WorkloadError, match="job 1: begin_s is"):
        problem([1, 1], [1, 1], begin_s=[0.0, begin_s])


@pytest.mark.parametrize("fails", [-1.0, 0.5, 2.0, np.nan])
def test_a_job_fails_or_does_not(fails: float) -> None:
    with pytest.raises(WorkloadError, match=r"job 1: fails is .*: expected 1 = the job fails, or 0"):
        problem([1, 1], [1, 1], fails=[0.0, fails])


def test_more_jobs_may_enter_at_once_than_the_buffer_of_the_log_holds() -> None:
    jobs = 3000
    instance = problem([1] * jobs, [5.0] * jobs, ["", *["afterok:0"] * (jobs - 1)])
    log = played(instance)
    arrived = log.events[log.events["kind"] == ARRIVAL]
    assert (arrived["time_s"][1:] == 5.0).all()
    assert arrived["job"].tolist() == list(range(jobs))


def test_columns_that_hold_no_job_change_nothing() -> None:
    free = problem([1, 4, 2], [10, 5, 7])
    with_columns = problem([1, 4, 2], [10, 5, 7], ["", "", ""], begin_s=[0, 0, 0], fails=[0, 1, 0])
    assert with_columns.holds is None
    assert played(free).digest() == played(with_columns).digest()
    assert "cancelled" not in summarise(with_columns, played(with_columns))


def test_a_selection_of_jobs_forgets_dependencies_on_others() -> None:
    jobs = problem([1] * 4, [1] * 4, ["", "", "afterok:0:1+5,afterany:0", "afterok:0,singleton"], user=["a"] * 4,
                   name=["b"] * 4).workload  # fmt: skip
    assert jobs.select(np.array([1, 2, 3])).attributes["dependency"].tolist() == ["", "afterok:1+5", "singleton"]
    assert jobs.select(np.array([0, 1, 2, 3])).edges.tolist() == jobs.edges.tolist()


def test_holds_are_saved_and_belong_to_the_fingerprint(tmp_path: Path) -> None:
    jobs = problem([1, 1], [1, 1], ["", "afterok:0"], begin_s=[0, 3]).workload
    jobs.save(tmp_path / "jobs.npz")
    again = Workload.load(tmp_path / "jobs.npz")
    assert again.fingerprint() == jobs.fingerprint()
    assert again.edges.tolist() == jobs.edges.tolist()
    prints = {
        problem([1, 1], [1, 1], depends, begin_s, **told).workload.fingerprint()
        for depends, begin_s, told in (
            ([], [], {}), (["", "afterok:0"], [], {}), (["", "afterany:0"], [], {}), ([], [0, 3], {}),
            (["", "afterok:0"], [], {"fails": [1, 0]}),
        )
    }  # fmt: skip
    assert len(prints) == 5


def test_schedulers_do_not_see_held_jobs_in_the_queue() -> None:
    seen: list[tuple[float, list[int], list[int], int]] = []

    class Watch(Scheduler):
        name = "watch"

        def decide(self, view: Any) -> Any:
            seen.append((view.now_s, view.waiting.tolist(), view.held.tolist(), view.entered))
            assert view.arrival_s.tolist()[:2] == [0.0, 0.0 if view.now_s < 10 else 10.0]
            yield from view.list_schedule(view.waiting)

    instance = problem([4, 4, 4], [10, 5, 5], ["", "afterok:0", ""], arrival_s=[0, 0, 1])
    validate(instance, simulate(instance, Watch()))
    assert seen == [(0.0, [0], [1], 1), (1.0, [2], [1], 2), (10.0, [1, 2], [], 3), (15.0, [2], [], 3)]


# --- properties


@st.composite
def held_problems(draw: st.DrawFn) -> Instance:
    """Jobs with random earliest starts and a random acyclic graph of dependencies; some are killed or fail."""
    jobs = draw(st.integers(2, 14))
    arrival = np.sort(draw(st.lists(st.integers(0, 40), min_size=jobs, max_size=jobs))).astype(float)
    texts = [""]
    for row in range(1, jobs):
        kinds = st.sampled_from(["after", "afterany", "afterok", "afternotok"])
        delays = st.sampled_from(["", "+7s", "+1"])
        chosen = draw(st.lists(st.tuples(kinds, st.integers(0, row - 1), delays), max_size=2))
        texts.append(",".join(f"{kind}:{before}{delay}" for kind, before, delay in chosen))
    seconds = np.array(draw(st.lists(st.integers(1, 30), min_size=jobs, max_size=jobs)), float)
    kills = draw(st.booleans())
    return problem(
        draw(st.lists(st.integers(1, 4), min_size=jobs, max_size=jobs)),
        seconds.tolist(),
        texts,
        draw(st.lists(st.sampled_from([0, 0, 0, 3, 50]), min_size=jobs, max_size=jobs)),
        arrival.tolist(),
        "2x4",
        KILLS if kills else dataclasses.replace(FREE, round_s=draw(st.sampled_from([0.0, 4.0]))),
        fails=draw(st.lists(st.sampled_from([0, 0, 1]), min_size=jobs, max_size=jobs)),
        estimate_s=seconds * draw(st.sampled_from([0.5, 1.0])) if kills else seconds,
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(held_problems(), st.sampled_from(SCHEDULERS))
def test_every_run_ends_and_no_job_starts_before_its_release(instance: Instance, spec: str) -> None:
    """The validator recomputes each release and each cancellation from the starts and ends in the log."""
    log = played(instance, spec)
    events, holds = log.events, instance.holds
    gone = (events["kind"] == REFUSE).sum() + summarise(instance, log)["finished"]
    assert gone == len(instance.workload)
    if holds is not None:
        started = events[events["kind"] == START]
        assert (started["time_s"] >= holds.eligible_s[started["job"]]).all()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(held_problems(), st.sampled_from([spec for spec in SCHEDULERS if spec not in ("random", "gavel")]))
def test_compiled_loops_give_the_log_of_decide(instance: Instance, spec: str) -> None:
    scheduler = make_scheduler(spec)
    scheduler.player = lambda _: None  # type: ignore[method-assign]
    asked = simulate(instance, scheduler)
    assert asked.digest() == simulate(instance, make_scheduler(spec)).digest()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(held_problems(), st.sampled_from(["fifo-skip", "srtf", "slurm"]))
def test_bounds_hold(instance: Instance, spec: str) -> None:
    log = played(instance, spec)
    summary, bounds = summarise(instance, log), lower_bounds(instance)
    if summary["finished"] == len(instance.workload):
        assert bounds["mean_jct_s"] <= summary["mean_jct_s"] * (1 + 1e-9)
        assert bounds["makespan_s"] <= summary["makespan_s"] * (1 + 1e-9)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(held_problems(), st.floats(0, 80))
def test_the_cut_of_a_run_continues_to_an_equal_digest(instance: Instance, moment_s: float) -> None:
    whole = simulate(instance, make_scheduler("fifo-skip"))
    simulation = begin(instance, moves_of(instance, whole, moment_s), moment_s, ask=False)
    simulation.run(make_scheduler("fifo-skip"))
    assert simulation.log().digest() == whole.digest()


def test_the_bound_on_the_makespan_knows_the_critical_path() -> None:
    """Job 0 takes 10 s, job 1 20 s more, job 3 starts 60 s after the start of job 1, and takes 5 s; job 2 is beside."""
    instance = problem([1] * 4, [10, 20, 30, 5], ["", "afterok:0", "", "after:1+1"])
    assert lower_bounds(instance)["makespan_s"] == 75.0
    assert summarise(instance, played(instance))["makespan_s"] == 75.0


def test_the_validator_refuses_a_run_that_ignores_the_holds() -> None:
    instance = problem([1, 1], [10, 10], ["", "afterok:0"])
    ignorant = problem([1, 1], [10, 10])
    with pytest.raises(ScheduleError, match="does not arrive at this time"):
        validate(instance, simulate(ignorant, make_scheduler("fifo")))
    with pytest.raises(ScheduleError, match="does not arrive at this time"):
        validate(ignorant, simulate(instance, make_scheduler("fifo")))
    part = played(instance)
    lost = EventLog(part.events[part.events["job"] == 0], part.gpus[:1])
    with pytest.raises(ScheduleError, match="job 1: it never finishes"):
        validate(instance, lost)


# --- environments, plain Python


def random_jobs(seed: int, jobs: int = 40) -> Workload:
    rng = np.random.default_rng(seed)
    kinds = ("after", "afterany", "afterok", "afternotok")
    texts = [""] + [
        f"{kinds[rng.integers(4)]}:{rng.integers(row)}+{rng.integers(100)}s" if rng.random() < 0.4 else ""
        for row in range(1, jobs)
    ]
    return Workload.from_columns(
        np.cumsum(rng.integers(0, 60, jobs)), rng.integers(1, 9, jobs), rng.integers(20, 400, jobs),
        estimate_s=np.full(jobs, 300.0), name="held",
        attributes={"dependency": np.array(texts), "begin_s": rng.choice([0.0, 0.0, 120.0], jobs)},
    )  # fmt: skip


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Scenario:
    path = tmp_path_factory.mktemp("held") / "jobs.npz"
    random_jobs(0).save(path)
    rules = Semantics(checkpoint_s=5.0, restore_s=5.0, kill_at_limit=True)
    return Scenario(
        "held", "Held jobs.", (NodeGroup(2, 8),), WorkloadSpec(f"file:{path}", profiles="own"), semantics=rules
    )


@pytest.mark.parametrize("spec", ["fifo", "srtf", "tiresias", "dally", "themis-lite", "slurm-multifactor"])
def test_schedulers_play_alike_directly_and_through_the_environment(scenario: Scenario, spec: str) -> None:
    through = play_scheduler(wide_open(scenario, 3), make_scheduler(spec), 3)
    direct = simulate(scenario.instance(3), make_scheduler(spec), seed=3)
    validate(scenario.instance(3), through)
    assert through.digest() == direct.digest()


def episode(env: ClusterEnv, mask: np.ndarray, seed: int, steps: int = 100_000) -> tuple[list[float], Any, np.ndarray]:
    rng, rewards, info = np.random.default_rng(seed), [], {}
    for _ in range(steps):
        _, reward, terminated, truncated, info = env.step(int(rng.choice(np.flatnonzero(mask))))
        mask = info["action_mask"]
        rewards.append(reward)
        if terminated or truncated:
            break
    return rewards, info, mask


def test_an_agent_never_sees_held_jobs_and_its_episode_ends(scenario: Scenario) -> None:
    env = ClusterEnv(scenario)
    _, info = env.reset(seed=3)
    _, info, _ = episode(env, info["action_mask"], 0)
    validate(scenario.instance(3), env.event_log())
    assert info["digest"] == env.event_log().digest()


def test_snapshots_hold_what_is_held(scenario: Scenario) -> None:
    env = ClusterEnv(scenario)
    _, info = env.reset(seed=3)
    _, _, mask = episode(env, info["action_mask"], 0, 25)
    snapshot = env.snapshot()
    first = episode(env, mask, 1)
    env.restore(snapshot)
    again = episode(env, mask, 1)
    assert first[0] == again[0]
    assert first[1]["digest"] == again[1]["digest"]


def test_the_batch_equals_single_environments(scenario: Scenario) -> None:
    batch = ClusterVectorEnv(2, scenario=scenario, autoreset_mode="Disabled")
    singles = [ClusterEnv(scenario), ClusterEnv(scenario)]
    _, info = batch.reset(seed=[1, 2])
    masks = [env.reset(seed=seed)[1]["action_mask"] for env, seed in zip(singles, (1, 2), strict=True)]
    rng = np.random.default_rng(0)
    for _ in range(30):
        np.testing.assert_array_equal(info["action_mask"], masks)
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        observed, rewards, _, _, info = batch.step(actions)
        for number, env in enumerate(singles):
            one, reward, _, _, told = env.step(int(actions[number]))
            masks[number] = told["action_mask"]
            assert reward == rewards[number]
            np.testing.assert_array_equal(observed["queue"][number], one["queue"])


def digests() -> list[str]:
    found = []
    for seed in range(4):
        rules = dataclasses.replace(KILLS, round_s=60.0 * (seed % 2))
        instance = Instance(Cluster.parse("2x8"), random_jobs(seed), semantics=rules)
        found += [simulate(instance, make_scheduler(spec)).digest() for spec in ("fifo", "tiresias", "slurm", "dally")]
    return found


def test_plain_python_gives_the_same_logs() -> None:
    assert plain_python_digests("tests.problem.test_dependencies") == digests()


def test_a_rehearsal_leaves_held_jobs_out() -> None:
    instance = problem([4, 4, 4], [10, 5, 5], ["", "afterok:0", ""], begin_s=[0, 0, 40])
    simulation = Simulation(instance)
    simulation.advance()
    simulation.apply(Start(0, "pack"))
    ahead = simulation.rehearsal()
    assert ahead.advance() is Outcome.DONE
    assert ahead.now_s == 10.0
    assert ahead.arrays.jobs["status"].tolist() == [FINISHED, FUTURE, FUTURE]
    simulation.run(make_scheduler("fifo"))
    validate(instance, simulation.log())
