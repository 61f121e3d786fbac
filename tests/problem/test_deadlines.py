"""Deadlines of jobs: files, refusals, metrics, readers, draws, measured speeds, and the scenarios."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest

from gpusched_env import (
    Cluster,
    Instance,
    Network,
    Preempt,
    Refuse,
    Semantics,
    Simulation,
    Start,
    Workload,
    get_scenario,
    make_scheduler,
    simulate,
)
from gpusched_env.errors import ScheduleError, WorkloadError
from gpusched_env.event_log import REFUSE, EventLog
from gpusched_env.metrics import DEADLINE_COLUMNS, job_times, jobs_in_system, jobs_waiting, summarise, validate
from gpusched_env.scenarios import WorkloadSpec
from gpusched_env.simulator import ClusterView
from gpusched_env.traces import read_trace
from gpusched_env.traces.deadlines import draw_deadlines
from gpusched_env.traces.elastic import elastic_jobs
from gpusched_env.traces.generators.synthetic import random_stream

FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)


def jobs(deadline_s: list[float], **more: np.ndarray) -> Workload:
    told = {"deadline_s": np.array(deadline_s), **more}
    count = len(deadline_s)
    return Workload.from_columns([10.0 * i for i in range(count)], [1] * count, [20.0] * count, attributes=told)


def instance(workload: Workload) -> Instance:
    return Instance(Cluster.parse("1x1"), workload, Network(model="none"), FREE)


def test_deadlines_are_checked_saved_and_part_of_the_fingerprint(tmp_path: Path) -> None:
    workload = jobs([30.0, math.inf, -5.0], value=np.array([2.0, 1.0, 0.0]))
    assert workload.deadline_s.tolist() == [30.0, math.inf, 15.0]
    workload.save(tmp_path / "jobs.npz")
    again = Workload.load(tmp_path / "jobs.npz")
    assert again.deadline_s.tolist() == workload.deadline_s.tolist()
    assert again.fingerprint() == workload.fingerprint()
    plain = dataclasses.replace(workload, attributes={})
    assert plain.deadline_s is None
    assert len({plain.fingerprint(), workload.fingerprint(), jobs([31.0, math.inf, -5.0]).fingerprint()}) == 3
    assert jobs([math.inf] * 2).deadline_s is None
    with pytest.raises(WorkloadError, match="job 1: deadline_s is nan: expected a number of seconds after the arrival"):
        jobs([1.0, math.nan])
    with pytest.raises(WorkloadError, match="job 0: value is -1: expected a finite number >= 0"):
        jobs([1.0], value=np.array([-1.0]))
    with pytest.raises(WorkloadError, match=r"deadline_s: could not convert.*give numbers"):
        dataclasses.replace(plain, attributes={"deadline_s": np.array(["1", "2", "soon"])})


def test_deadlines_move_with_the_arrivals() -> None:
    workload = jobs([30.0, 40.0])
    assert workload.deadline_s.tolist() == [30.0, 50.0]
    assert workload.select(np.array([1])).deadline_s.tolist() == [50.0]
    assert workload.unchecked_columns(arrival_s=np.array([0.0, 5.0])).deadline_s.tolist() == [30.0, 45.0]


def played() -> tuple[Instance, EventLog]:
    """Four jobs of 20 s on one GPU: met, late by 5 s, refused at 25 s, and without a deadline."""
    problem = instance(jobs([20.0, 25.0, 50.0, math.inf], value=np.array([1.0, 2.0, 3.0, 9.0])))
    run = Simulation(problem)
    for at_s, decision in ((0.0, Start(0)), (20.0, Start(1)), (25.0, Refuse(2)), (40.0, Start(3))):
        while run.now_s < at_s:
            run.wake_at(at_s)
            run.advance()
        if at_s == 0.0:
            run.advance()
        assert run.apply(decision) == ""
    while run.advance().name != "DONE":
        pass
    return problem, run.log()


def test_metrics_by_hand() -> None:
    problem, log = played()
    validate(problem, log)
    found = summarise(problem, log)
    assert list(found)[-len(DEADLINE_COLUMNS) :] == [column.name for column in DEADLINE_COLUMNS]
    assert found["deadlines_met"] == pytest.approx(1 / 3)
    assert found["admitted_share"] == pytest.approx(2 / 3)
    assert found["admitted_met"] == pytest.approx(1 / 2)
    assert found["mean_tardiness_s"] == pytest.approx(2.5)  # job 1 ends at 40 s, five seconds late
    assert found["max_tardiness_s"] == pytest.approx(5.0)
    assert found["value_share"] == pytest.approx(1 / 6)
    assert found["finished"] == 3
    times = job_times(problem, log)
    assert times["queueing_s"].tolist() == [0, 10, 5, 10]
    assert np.isnan(times["finish_s"]).tolist() == [False, False, True, False]
    assert jobs_in_system(log).at(26.0) == 1
    assert jobs_waiting(log).at(26.0) == 0
    assert "deadlines_met" not in summarise(*plain_run())


def plain_run() -> tuple[Instance, EventLog]:
    problem = instance(jobs([math.inf]))
    return problem, simulate(problem, make_scheduler("fifo"))


def test_what_may_be_refused() -> None:
    run = Simulation(instance(jobs([100.0] * 4)))
    run.advance()
    assert run.apply(Refuse(7)) == "no such job in this scenario"
    assert run.apply(Refuse(1)) == "the job has not arrived yet"
    assert run.apply(Start(0)) == ""
    assert run.apply(Refuse(0)) == "the job is running"
    run.advance()
    assert run.apply(Refuse(1)) == ""
    assert run.apply(Refuse(1)) == run.apply(Start(1)) == "the job was refused"
    assert run.apply(Preempt(0)) == ""
    assert run.apply(Refuse(0)) == "the job has started before"
    view = ClusterView(run)
    assert view.refused(np.array([0, 1])).tolist() == [False, True]
    assert view.waiting.tolist() == [0]
    assert run.arrays.world["waiting_gpus"] == 1
    assert view.finished_count == 1


def test_the_validator_refuses_a_refused_job_that_runs() -> None:
    problem, log = played()
    events = log.events.copy()
    events["job"][np.flatnonzero(events["kind"] == REFUSE)] = 1
    with pytest.raises(ScheduleError):
        validate(problem, EventLog(events, log.gpus))


def test_a_run_in_which_every_job_is_refused_ends() -> None:
    run = Simulation(instance(jobs([5.0, 5.0])))
    outcomes = []
    for job in range(2):
        outcomes.append(run.advance().name)
        assert run.apply(Refuse(job)) == ""
    assert [*outcomes, run.advance().name] == ["DECIDE", "DECIDE", "DONE"]
    validate(run.instance, run.log())
    assert summarise(run.instance, run.log())["deadlines_met"] == 0.0


def test_chronus_jobs_have_their_first_expected_time(tmp_path: Path) -> None:
    head = "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
    rows = ["0,u,1,10,5,m,96,5,159-189,8-5,0,soft", "1,u,1,11,5,m,10,5,20,10,0,strict", "2,u,1,12,5,m,9,5,12,10,1,best"]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join([head + "best_effort,job_type", *rows]) + "\n")
    workload = read_trace(f"chronus:{path}")[0]
    assert workload.attributes["deadline_s"].tolist() == [159 * 60, 20 * 60, math.inf]
    assert workload.attributes["value"].tolist() == [8, 10, 1]


def test_drawn_deadlines() -> None:
    workload = Workload.from_columns(np.zeros(4000), [1] * 4000, np.linspace(10, 100, 4000))
    drawn = draw_deadlines(workload, random_stream(1, 2), 0.5, 1.5, 0.75)
    factors = drawn.attributes["deadline_s"] / workload.jobs["duration_s"]
    due = np.isfinite(factors)
    assert due.mean() == pytest.approx(0.75, abs=0.03)
    assert 0.5 <= factors[due].min() < 0.51 < 1.49 < factors[due].max() <= 1.5
    assert factors[due].mean() == pytest.approx(1.0, abs=0.03)
    for wrong in ({"least": 2.0}, {"share": 1.5}, {"most": "x"}, {"mosst": 1.0}):
        with pytest.raises(WorkloadError, match="deadlines: "):
            WorkloadSpec("synthetic:philly", deadlines=wrong)


def test_measured_speeds_of_elastic_jobs() -> None:
    scenario = get_scenario("elasticflow-v0:jobs=40")
    drawn = scenario.instance(3)
    view = ClusterView(run := Simulation(drawn))
    run.advance()
    names = drawn.workload.profiles.rows["name"][drawn.workload.jobs["profile"]]
    sizes, rates = view.sizes(0), view.size_rates(0)
    assert sizes.tolist() == [2**k for k in range(len(sizes))]
    from gpusched_env.traces.profile_tables import load_measured

    published = load_measured("elasticflow").models[str(names[0])].rates["A100"]
    assert rates == pytest.approx([published[size][0] for size in sizes.tolist()])
    with pytest.raises(WorkloadError, match="set profiles to 'elasticflow'"):
        elastic_jobs(jobs([1.0]), "elasticflow")


@pytest.mark.parametrize("name", ["elasticflow", "edf", "edf-admission", "chronus"])
@pytest.mark.parametrize("scenario", ["elasticflow-v0:jobs=40", "slo-v0"])
def test_scenarios_play(name: str, scenario: str) -> None:
    problem = get_scenario(scenario).instance(200_000)
    log = simulate(problem, make_scheduler(name))
    validate(problem, log)
    assert summarise(problem, log)["deadlines_met"] >= 0.2
