"""Forecasts of starts: run times from history, sampled futures, calibration, backtests, and the commands."""

import csv
import dataclasses
import math
from datetime import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from gpusched_env.baselines.registry import make_scheduler
from gpusched_env.baselines.slurm.past_usage import PastUsage
from gpusched_env.cli.app import app
from gpusched_env.cli.forecasting import _history
from gpusched_env.errors import GpuschedError, SchedulerError, TraceError
from gpusched_env.metrics import job_times
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import begin, simulate
from gpusched_env.simulator.past import moves_of
from gpusched_env.twin import Pool, Twin, futures, write_twin
from gpusched_env.twin.futures import Options, _Source, sampled_starts
from gpusched_env.twin.history import DAY_S, Asked, History, alike, batches, bucket, drawn_arrivals, likeness
from gpusched_env.twin.quantiles import HOURS, Quantiles, scaled, seconds
from gpusched_env.twin.recorded import Recorded
from gpusched_env.twin.settings import Plain
from gpusched_env.twin.snapshot import PresentJob, Snapshot
from gpusched_env.twin.usage import by_shares, past_usage, read_sshare
from tools.__main__ import app as tools_app
from tools.calibration.backtest import Coverage, Scored, backtest, played, with_limits


def past(run_s, limit_s=None, user=None, arrival_s=None, gpus=None):
    count = len(run_s)
    attributes = {} if user is None else {"user": np.array(user)}
    return Workload.from_columns(
        np.zeros(count) if arrival_s is None else arrival_s, np.ones(count, int) if gpus is None else gpus, run_s,
        estimate_s=np.full(count, np.nan) if limit_s is None else limit_s, attributes=attributes,
    )  # fmt: skip


def asked(user="", limit_s=math.nan, age_s=0.0):
    return Asked(np.array([user]), np.array([limit_s]), np.array([age_s]))


def drawn(history, wanted):
    """All totals that a job may draw, from many numbers of 0..1."""
    choices = history.choices(wanted)
    return sorted({round(float(choices.draw(np.array([u]))[0]), 6) for u in np.linspace(0, 0.999, 500)})


# --- run times


def test_limits_of_a_factor_of_two_are_one_bucket():
    assert bucket(np.array([math.nan, 30.0, 60.0, 119.0, 120.0, 3600.0])).tolist() == [-1, 0, 1, 1, 2, 6]


def test_a_job_draws_from_the_narrowest_group_with_enough_jobs():
    # 20 jobs of ana with limits of 1 h use a quarter of it, 20 with limits of 10 h a half; 20 of bo all of 1 h.
    run_s = np.r_[np.full(20, 900.0), np.full(20, 18_000.0), np.full(20, 3600.0)]
    limit_s = np.r_[np.full(20, 3600.0), np.full(20, 36_000.0), np.full(20, 3600.0)]
    history = History(past(run_s, limit_s, ["ana"] * 40 + ["bo"] * 20))
    assert drawn(history, asked("ana", 3600.0)) == [900.0]
    assert drawn(history, asked("ana", 3000.0)) == [750.0]  # a part of the own limit
    assert drawn(history, asked("ana", 600.0)) == [900.0, 18_000.0]  # no such limit: all of ana's run times
    assert drawn(history, asked("cy", 3600.0)) == [900.0, 3600.0]  # an unknown user: all with this limit
    assert drawn(history, asked("cy", 600.0)) == [900.0, 3600.0, 18_000.0]  # neither: all


def test_the_rest_of_a_running_job_is_conditioned_on_its_age():
    history = History(past(np.r_[np.full(30, 100.0), np.full(20, 1000.0), np.full(3, 5000.0)]))
    assert drawn(history, asked()) == [100.0, 1000.0, 5000.0]
    assert drawn(history, asked(age_s=100.0)) == [1000.0, 5000.0]
    assert drawn(history, asked(age_s=2000.0)) == [5000.0]  # fewer than wanted, but all there are
    beyond = drawn(history, asked(age_s=6000.0))
    assert beyond[0] >= 6001.0
    assert beyond[-1] <= 12_000.0
    assert drawn(history, asked(age_s=6000.0, limit_s=7000.0)) == [7000.0]  # it may run to its limit
    assert drawn(history, asked(age_s=8000.0, limit_s=7000.0))[0] >= 8001.0


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), age=st.floats(0, 1e5))
def test_no_job_ends_in_the_past(seed, age):
    rng = np.random.default_rng(seed)
    history = History(past(rng.integers(1, 50_000, 60).astype(float), rng.integers(1, 9, 60) * 3600.0))
    wanted = asked("", float(rng.integers(1, 9) * 3600), age)
    assert min(drawn(history, wanted)) > age


def test_future_days_are_the_same_days_of_past_weeks():
    # One job each day at 6:00 + its number in seconds, for 21 days.
    arrival_s = np.arange(21) * DAY_S + 21_600 + np.arange(21)
    rows, times = drawn_arrivals(arrival_s, 21 * DAY_S, 8 * DAY_S, np.random.default_rng(0))
    weeks_back = 3 - rows[:7] // 7
    assert (rows[:7] % 7 == np.arange(7)).all()
    assert set(weeks_back) <= {1, 2, 3}
    np.testing.assert_array_equal(times, np.arange(8) * DAY_S + 21_600 + rows)
    assert len(drawn_arrivals(np.zeros(2), 5.0, DAY_S, np.random.default_rng(0))[0]) == 0


# --- futures


def one_queue():
    """Four GPUs are held until 100 s or 200 s; a waits for all of them, then b."""
    running = PresentJob("r", 4, 0.0, 0.0)
    queued = (PresentJob("a", 4, 10.0), PresentJob("b", 1, 20.0), PresentJob("c", 8, 30.0))
    return Snapshot(50.0, (running,), queued)


def test_starts_follow_the_drawn_run_times():
    history = History(past([100.0] * 30 + [200.0] * 30))
    options = Options(futures=40, arrivals=False)
    starts = sampled_starts(one_queue(), Plain(Cluster.parse("1x4"), "fifo"), history, options)
    assert set(starts[:, 0].tolist()) == {50.0, 150.0}  # r ends at 100 or at 200
    gaps = starts[:, 1] - starts[:, 0]
    assert set(gaps.tolist()) == {100.0, 200.0}  # a runs for so long
    assert np.isnan(starts[:, 2]).all()  # c fits on no machine


@pytest.mark.parametrize("policy", ["fifo", "slurm", "fifo-easy:estimator=user"])
def test_held_jobs_start_when_they_may(policy):
    """r ends 60 s from now. a begins 500 s from now; b waits 1 min from r's end; c for d, which takes 100 s."""
    r = PresentJob("r", 1, 0.0, 0.0, limit_s=200.0)
    queued = (
        PresentJob("a", 1, 10.0, limit_s=200.0, begin_s=540.0),
        PresentJob("b", 1, 10.0, limit_s=200.0, dependency="afterany:r+1,afterok:ended"),
        PresentJob("c", 1, 10.0, limit_s=200.0, dependency="after:r,afterok:d"),
        PresentJob("d", 1, 10.0, limit_s=200.0),
        PresentJob("e", 1, 10.0, limit_s=200.0, dependency="afternotok:r"),
    )
    setting = Plain(Cluster.parse("1x8"), policy)
    history = History(past([100.0] * 30, limit_s=[200.0] * 30))
    starts = sampled_starts(
        Snapshot(40.0, (r,), queued), setting, history, Options(3, horizon_s=7200.0, arrivals=False)
    )
    assert starts[:, [0, 1, 3]] == pytest.approx(np.tile([500.0, 120.0, 0.0], (3, 1)), abs=0.01)
    assert starts[:, 2] == pytest.approx(100.0, abs=0.01)
    assert np.isinf(starts[:, 4]).all() | np.isnan(starts[:, 4]).all()  # r does not fail, so e never runs


def test_jobs_that_wait_for_each_other_are_refused():
    queued = tuple(PresentJob(a, 1, 10.0, dependency=f"afterok:{b}") for a, b in (("a", "b"), ("b", "a")))
    with pytest.raises(GpuschedError, match="depend on each other in a circle"):
        sampled_starts(
            Snapshot(40.0, (), queued), Plain(Cluster.parse("1x8"), "fifo"), History(past([9.0])), Options(2)
        )


def test_futures_do_not_depend_on_threads_and_differ_between_seeds():
    rng = np.random.default_rng(1)
    workload = past(rng.integers(10, 5000, 400).astype(float), arrival_s=np.sort(rng.random(400)) * 9 * DAY_S)
    now_s = 10 * DAY_S
    queued = tuple(PresentJob(f"q{i}", 1 + i % 3, now_s - 50 + i) for i in range(12))
    snapshot = Snapshot(now_s, (PresentJob("r", 4, now_s - 60, now_s - 60),), queued)
    setting = Plain(Cluster.parse("1x4"), "slurm")
    one, two, other = (
        sampled_starts(snapshot, setting, History(workload), Options(futures=60, seed=seed, threads=threads))
        for seed, threads in ((0, 1), (0, 2), (1, 1))
    )
    np.testing.assert_array_equal(one, two)
    assert (one != other).any()


def test_a_job_that_does_not_start_within_the_horizon_never_starts():
    history = History(past([100.0] * 30))
    options = Options(futures=5, arrivals=False, horizon_s=60.0)
    starts = sampled_starts(one_queue(), Plain(Cluster.parse("1x4"), "fifo"), history, options)
    assert (starts[:, 0] == 50.0).all()
    assert np.isinf(starts[:, 1]).all()


def test_arrivals_are_learned_from_jobs_that_have_not_ended():
    # A job each day at 6:00 runs for 60 h: of the last three days, none has ended by midnight.
    arrival_s = np.arange(21) * DAY_S + 21_600
    workload = past(np.full(18, 216_000.0), arrival_s=arrival_s[:18])
    now_s = 21 * DAY_S
    running = tuple(PresentJob(f"r{i}", 1, float(arrival_s[i]), float(arrival_s[i])) for i in (18, 19))
    old = PresentJob("old", 1, 0.0, 0.0)  # does not let the log begin earlier
    unknown = PresentJob("unknown", 1)
    queued = (PresentJob("q", 1, float(arrival_s[20]), limit_s=7200.0, user="ana"), unknown)
    found = _Source(Snapshot(now_s, (*running, old), queued), History(workload), Options())
    later = [found.workload(group).jobs[5:] for group in range(20)]
    hours = (later[0]["arrival_s"] - found.now_s) / 3600
    np.testing.assert_allclose(hours, np.arange(7) * 24 + 6)
    assert {len(jobs) for jobs in later} == {7}
    drawn = np.concatenate([jobs["estimate_s"] for jobs in later])
    assert np.nanmax(drawn) == 7200.0  # the queued job of the last day is drawn as well
    assert {"", "ana"} == {name for group in range(20) for name in found.workload(group).attributes["user"][5:]}


@pytest.mark.parametrize("spec", ["slurm", "slurm:backfill=easy", "slurm-multifactor", "sjf:estimator=user"])
def test_starts_do_not_depend_on_where_a_future_is_cut(monkeypatch, spec):
    rng = np.random.default_rng(2)
    arrival_s = np.sort(rng.random(500)) * 9 * DAY_S
    workload = past(rng.integers(600, 30_000, 500).astype(float), np.full(500, 36_000.0), arrival_s=arrival_s)
    now_s = 10 * DAY_S
    queued = tuple(PresentJob(f"q{i}", 1 + i % 4, now_s - 50 + i, limit_s=36_000.0) for i in range(30))
    snapshot = Snapshot(now_s, (PresentJob("r", 4, now_s - 60, now_s - 60),), queued)
    setting, options = Plain(Cluster.parse("1x4"), spec), Options(futures=6, cycle_s=0.0)
    whole = sampled_starts(snapshot, setting, History(workload), options)
    for stop_s in (900.0, math.inf):
        monkeypatch.setattr(futures, "STOP_S", stop_s)
        np.testing.assert_array_equal(sampled_starts(snapshot, setting, History(workload), options), whole)


# --- usage of tenants


@pytest.mark.parametrize("fair_share", ["tree", "classic"])
def test_a_cut_run_goes_on_with_the_usage_of_its_past(fair_share):
    """Fair shares decide the order, so a run that is cut and taken over without its usage would be another one."""
    spec = f"slurm:fair_share_weight=1000,fair_share={fair_share},backfill=none"
    rng = np.random.default_rng(4)
    count = 300
    jobs = Workload.from_columns(
        np.sort(rng.integers(0, 40_000, count)).astype(float), rng.integers(1, 5, count),
        rng.integers(300, 4000, count).astype(float), estimate_s=np.full(count, 4000.0),
        attributes={"account": rng.choice(["x", "y"], count), "user": rng.choice(["a", "b", "c"], count)},
    )  # fmt: skip
    setting = Plain(Cluster.parse("2x4"), spec)
    (problem,) = setting.problems(jobs)
    instance, rules = problem.instance, make_scheduler(spec)
    log = simulate(instance, make_scheduler(spec))
    times = job_times(instance, log)
    now_s = 30_123.0
    there = times["first_start_s"] <= now_s
    tree, leaf = instance.tenancy
    recorded = Recorded(
        instance.workload.jobs["arrival_s"], times["first_start_s"], np.minimum(times["finish_s"], now_s),
        instance.workload.jobs["gpus"].astype(int),
    )  # fmt: skip
    usage = past_usage(rules, np.array(tree.names)[leaf[there]], Recorded(*(one[there] for one in recorded)), now_s)

    def taken_over(remembers):
        scheduler = make_scheduler(spec)
        if remembers:
            scheduler.remember(usage)
        run = begin(instance, moves_of(instance, log, now_s), now_s)
        run.run(scheduler)
        return job_times(instance, run.log())["first_start_s"]

    late = instance.workload.jobs["arrival_s"] > now_s
    assert late.sum() > 20
    assert (taken_over(False)[late] != times["first_start_s"][late]).any()
    differ = taken_over(True) != times["first_start_s"]
    assert not differ.any()


def test_a_forecast_knows_who_has_used_much():
    """ana has used the machine for a week; one GPU becomes free, for which she and bo wait since the same time."""
    now_s = 8 * DAY_S
    workload = past(np.full(7, 80_000.0), user=["ana"] * 7, arrival_s=np.arange(7) * DAY_S)
    running = PresentJob("r", 1, now_s - 60, now_s - 60, user="cy", limit_s=90_000.0)
    queued = tuple(PresentJob(name, 1, now_s - 10, user=name, limit_s=90_000.0) for name in ("ana", "bo"))
    snapshot = Snapshot(now_s, (running,), queued)
    setting, options = Plain(Cluster.parse("1x1"), "slurm:fair_share_weight=1000"), Options(2, arrivals=False)
    starts = sampled_starts(snapshot, setting, History(workload), options)
    assert (starts[:, 1] < starts[:, 0]).all()
    told = {("", "ana"): 1.0, ("", "bo"): 50.0, ("", "cy"): 0.0}  # sshare says otherwise
    starts = sampled_starts(snapshot, setting, History(workload), options, shares=told)
    assert (starts[:, 0] < starts[:, 1]).all()
    with pytest.raises(GpuschedError, match="no account and user with a job in the snapshot"):
        sampled_starts(snapshot, setting, History(workload), options, shares={("vision", "ana"): 1.0})
    users = Plain(
        setting.cluster, setting.scheduler, tenant_columns=("user",)
    )  # what ana used in two accounts is added up
    told = {("v", "ana"): 20.0, ("w", "ana"): 20.0, ("v", "bo"): 30.0, ("v", "cy"): 0.0}
    starts = sampled_starts(snapshot, users, History(workload), options, shares=told)
    assert (starts[:, 1] < starts[:, 0]).all()


def test_shares_of_slurm_have_the_sum_of_the_history():
    found = by_shares(PastUsage(5.0, {"a": 30.0}, {"b": 10.0}), {"a": 1.0, "c": 3.0})
    assert found == PastUsage(5.0, {"a": 10.0, "c": 30.0}, {})


SSHARE = """Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare
root|||0.000000|1500||1.000000|
 vision||1|0.500000|1500|1.000000|1.000000|
  vision|ana|1|0.500000|1000|0.666667|0.666667|0.250000
  vision|bo|1|0.500000|500|0.333333|0.333333|0.500000
"""


def test_sshare_is_read(tmp_path):
    (tmp_path / "sshare.txt").write_text(SSHARE)
    assert read_sshare(tmp_path / "sshare.txt") == {("vision", "ana"): 1000.0, ("vision", "bo"): 500.0}
    (tmp_path / "twice.txt").write_text(SSHARE + "  vision|bo|1|0.3|70|0.3|0.3|0.5\n")  # for a partition
    assert read_sshare(tmp_path / "twice.txt")["vision", "bo"] == 570.0
    for old, new, told in (
        ("RawUsage", "Raw", "line 1: no column rawusage"),
        ("|1000|", "|many|", "line 4, field 'RawUsage': 'many'"),
        ("|1000|", "|", "line 4: 7 fields where the header has 8"),
        (SSHARE[SSHARE.index("  vision|ana") :], "", "no row has a user; write the file with sshare --all"),
    ):
        (tmp_path / "bad.txt").write_text(SSHARE.replace(old, new, 1))
        with pytest.raises(TraceError, match=told):
            read_sshare(tmp_path / "bad.txt")


def test_later_arrivals_of_higher_classes_delay_the_queue():
    # Each day a job of class 1 arrives; the queued job has class 0, and jobs of higher classes come first.
    days = np.arange(14)
    workload = Workload.from_columns(
        days * DAY_S + 60, np.full(14, 4), np.full(14, 80_000.0), attributes={"priority_class": np.ones(14)}
    )
    now_s = 14 * DAY_S
    snapshot = Snapshot(now_s, (PresentJob("r", 4, now_s - 100, now_s - 100),), (PresentJob("q", 4, now_s - 10),))
    setting = Plain(Cluster.parse("1x4"), "slurm:qos_weight=1000")
    alone, beside = (
        sampled_starts(snapshot, setting, History(workload), Options(futures=3, arrivals=arrivals))
        for arrivals in (False, True)
    )
    assert (alone == 79_900.0).all()
    assert (beside > alone).all()


def test_schedulers_that_know_the_future_are_refused():
    with pytest.raises(SchedulerError, match="nobody knows"):
        sampled_starts(one_queue(), Plain(Cluster.parse("1x4"), "srtf"), History(past([1.0])), Options(futures=2))


def test_more_gpus_than_the_machines_have_are_refused():
    setting = Plain(Cluster.parse("1x2"), "fifo")
    jobs = (PresentJob("r", 2, 0.0, 0.0), PresentJob("s", 2, 0.0, 0.0))
    snapshot = Snapshot(50.0, jobs, (PresentJob("a", 1, 10.0),))
    with pytest.raises(GpuschedError, match="hold 4 GPUs, but these machines have 2"):
        sampled_starts(snapshot, setting, History(past([100.0])), Options(futures=2))


def test_a_running_job_that_fits_nowhere_is_refused():
    """Without the job, its GPUs would count as free, and job a would start at once."""
    setting = Plain(Cluster.parse("1x2"), "fifo")
    snapshot = Snapshot(50.0, (PresentJob("r", 4, 0.0, 0.0, partition="gpu"),), (PresentJob("a", 1, 10.0),))
    with pytest.raises(GpuschedError, match="running job r holds 4 GPUs, but no machines of partition 'gpu' have as"):
        sampled_starts(snapshot, setting, History(past([100.0])), Options(futures=2))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("policy", ["fifo", "slurm"])
def test_jobs_run_on_the_gpu_types_that_they_ask_for(policy, named):
    """Job r holds all H100 until 100 s: h waits for them, a and w do not; l asks for more of them than there are."""
    running = PresentJob("r", 4, 0.0, 0.0, nodes={"h": 4} if named else {}, gpu_types="h100")
    asked = (("h", 4, "H100"), ("a", 2, "a100"), ("w", 2, ""), ("l", 6, "h100"))
    queued = tuple(PresentJob(name, gpus, 10.0, gpu_types=types) for name, gpus, types in asked)
    names = ("a", "h")
    setting = Plain(Cluster.parse("1x4@a100,1x4@h100"), policy, node_names=names if named else ())
    options = Options(futures=3, arrivals=False)
    starts = sampled_starts(
        Snapshot(50.0, (running,), queued, node_names=names if named else ()), setting, History(past([100.0])), options
    )
    np.testing.assert_allclose(starts[:, 0], 50.0, atol=0.01)  # the end of r
    if policy == "slurm":  # under fifo, all wait behind h
        np.testing.assert_allclose(starts[:, 1:3], 0.0, atol=0.01)
    assert np.isnan(starts[:, 3]).all()


def test_arrivals_ask_for_the_gpu_types_of_the_history_and_of_present_jobs():
    running = PresentJob("r", 1, 5 * DAY_S, 5 * DAY_S, gpu_types="h100")
    log = past([100.0] * 40, arrival_s=np.arange(40) * DAY_S / 8)
    log = dataclasses.replace(log, attributes={"gpu_types": np.array(["a100"] * 40)})
    snapshot = Snapshot(5.5 * DAY_S, (running,), (PresentJob("q", 1, 5.2 * DAY_S, gpu_types="v100"),))
    found = _Source(snapshot, History(log), Options()).workload(0).attributes["gpu_types"].tolist()
    assert found[:2] == ["", "v100"]  # the running job has its place
    assert set(found[2:]) == {"a100", "h100", "v100"}


@pytest.mark.parametrize("policy", ["fifo", "slurm:fair_share_weight=0"])
def test_shares_for_a_policy_without_fair_shares_are_refused(policy):
    snapshot = Snapshot(50.0, (), (PresentJob("a", 1, 10.0, user="ana"),))
    setting = Plain(Cluster.parse("1x2"), policy)
    with pytest.raises(GpuschedError, match="has no fair shares, so it would not be used: leave out --usage"):
        sampled_starts(snapshot, setting, History(past([100.0])), Options(2), shares={("", "ana"): 1.0})


@pytest.mark.parametrize("wrong", [{"futures": 0}, {"horizon_s": math.inf}, {"cycle_s": -1.0}, {"threads": 0}])
def test_wrong_options_are_refused(wrong):
    with pytest.raises(GpuschedError, match="forecast:"):
        Options(**wrong)


# --- quantiles and coverage


def test_intervals_and_probabilities_by_hand():
    starts = np.arange(1, 11, dtype=float)[:, None] * 3600.0  # 1 h, 2 h ... 10 h
    found = Quantiles.of(starts)
    assert [round(float(x[0])) for x in found.interval] == [3600, 18_000, 32_400]
    assert found.probability(4 * 3600.0).tolist() == [0.4]
    assert found.probability(24 * 3600.0).tolist() == [1.0]
    ends = np.array([3599.0, 3600.0, 18_000.0, 32_400.0, 32_401.0])
    assert Quantiles.of(np.repeat(starts, 5, axis=1)).contain(ends).tolist() == [False, True, True, True, False]


@given(st.floats(0, 1e6))
def test_the_logarithmic_scale_is_inverted(time_s):
    assert seconds(scaled(np.array([time_s])))[0] == pytest.approx(time_s, abs=1e-3, rel=1e-9)


def test_jobs_that_never_start_have_no_upper_end():
    starts = np.array([[10.0], [20.0], [math.inf], [math.inf], [math.inf]])
    low, middle, high = Quantiles.of(starts).interval
    assert low[0] == pytest.approx(10.0)
    assert math.isinf(middle[0])
    assert math.isinf(high[0])


def test_intervals_contain_four_fifths_of_what_is_drawn_like_the_samples():
    starts, truth = (np.exp(np.random.default_rng(5).normal(9.0, 1.0, (201, 4000))) for _ in range(2))
    assert 0.78 < Quantiles.of(starts[1:]).contain(truth[0]).mean() < 0.82


def test_coverage_counts_jobs_and_snapshots():
    chances, started = np.array([[0.25, 0.75], [1, 1], [1, 1]]), np.array([[0, 1], [0, 1], [1, 1]], bool)
    early = Scored(0.0, 2, np.array([True, False]), chances, started)
    late = Scored(10.0, 2, np.array([True, True]), chances, started)
    none = Scored(20.0, 0, np.empty(0, bool), np.empty((3, 0)), np.empty((3, 0), bool))
    found = Coverage.of([early, none, late])
    assert (found.jobs, found.snapshots, found.covered) == (4, 2, 0.75)
    assert found.forecast == (0.5, 1.0, 1.0)
    assert found.happened == (0.5, 0.5, 1.0)
    assert math.isnan(Coverage.of([none]).covered)


# --- likeness of run times


def test_jobs_of_a_user_and_a_day_are_a_batch():
    user = np.array(["a", "b", "a", "a", "b"])
    found = batches(user, np.array([0.0, 0.1, 0.9, 1.1, 0.2]) * DAY_S, DAY_S)
    assert [found.tolist().count(number) for number in found.tolist()] == [2, 2, 2, 1, 2]
    assert found[0] == found[2] != found[3]


@pytest.mark.parametrize("part", [0.0, 0.3, 0.6, 0.9])
def test_likeness_is_found_again(part):
    """Run times are drawn with a likeness; the correlation is measured from them within 0.04."""
    rng = np.random.default_rng(3)
    batch, at = np.repeat(np.arange(2000), 5), np.tile(np.arange(5.0), 2000)
    found = likeness(batch, at, np.zeros(10_000, np.int64), np.floor(1e6 * alike(rng, batch, part)), 20)
    assert abs(found * found - part * part) < 0.04


def test_alike_draws_are_uniform():
    rng = np.random.default_rng(4)
    found = np.concatenate([alike(rng, np.zeros(3, np.int64), 0.7) for _ in range(4000)])
    assert np.abs(np.quantile(found, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.02
    assert len(alike(rng, np.zeros(0, np.int64), 0.7)) == 0


def test_likeness_needs_pairs():
    alone = np.arange(40)
    assert likeness(alone, alone * 1.0, np.zeros(40, np.int64), alone * 1.0, 20) == 0.0
    # two batches in groups that are too small to have ranks
    assert likeness(alone // 20, alone * 1.0, alone // 10, alone * 1.0, 20) == 0.0


def test_a_queue_of_like_jobs_ends_less_certainly():
    """Ten jobs of one user run one after another on one GPU: if they are alike, their sum spreads further."""
    rng = np.random.default_rng(1)
    run_s = np.repeat(rng.integers(100, 1000, 200), 5).astype(float)
    like = past(run_s, arrival_s=np.repeat(np.arange(200) * DAY_S, 5) + np.tile(np.arange(5), 200))
    mixed = past(rng.permutation(run_s), arrival_s=like.jobs["arrival_s"])
    now_s = 300 * DAY_S
    snapshot = Snapshot(now_s, (), tuple(PresentJob(f"{i}", 1, now_s - 20 + i) for i in range(10)))
    widths = []
    for history in (like, mixed):
        starts = sampled_starts(
            snapshot, Plain(Cluster.parse("1x1"), "fifo"), History(history), Options(200, arrivals=False)
        )
        widths.append(float(np.ptp(np.quantile(starts[:, 9], [0.1, 0.9]))))
    assert widths[0] > 2 * widths[1]


# --- backtests


def log_of(weeks, seed=0, load=1.0):
    """Jobs of ten users, each with own run times, for an 8-GPU machine."""
    rng = np.random.default_rng(seed)
    count = round(weeks * 7 * DAY_S * 8 * load / (1.9 * 9000))
    user = rng.integers(0, 10, count)
    run_s = np.exp(rng.normal(7.5 + user / 5, 0.8, count))
    return with_limits(
        Workload.from_columns(
            np.sort(rng.random(count)) * weeks * 7 * DAY_S, rng.choice([1, 2, 4], count, p=[0.5, 0.3, 0.2]), run_s,
            attributes={"user": np.array([f"u{i}" for i in user])},
        )
    )  # fmt: skip


def test_snapshots_of_a_replay_show_the_present_and_hide_the_future():
    run = played(log_of(1), Plain(Cluster.parse("1x8"), "slurm"))
    moment = 3.3 * DAY_S
    snapshot, rows = run.snapshot(moment)
    assert sum(job.gpus for job in snapshot.running) <= 8
    assert [int(job.id) for job in snapshot.queued] == rows.tolist()
    assert (run.start_s[rows] > moment).all()
    history = run.history(moment)
    ended = history.workload.jobs
    assert set(ended["id"]) == set(run.workload.jobs["id"][run.finish_s <= moment])


def test_snapshots_of_a_replay_have_no_held_or_cancelled_jobs():
    """Job 1 enters the queue at 100 s and waits for job 2 until 150 s; job 3 is cancelled at 100 s."""
    jobs = Workload.from_columns(
        [0.0, 0.0, 10.0, 20.0], [4, 8, 4, 1], [100.0, 50.0, 140.0, 5.0],
        attributes={"dependency": np.array(["", "afterok:0", "", "afternotok:0"])},
    )  # fmt: skip
    run = played(jobs, Plain(Cluster.parse("1x8"), "fifo"))
    told = [run.snapshot(time_s) for time_s in (50.0, 120.0)]
    assert [(len(now.running), rows.tolist()) for now, rows in told] == [(2, []), (1, [1])]
    assert told[1][0].queued[0].arrival_s == 100.0


def test_intervals_cover_four_fifths_of_a_generated_log():
    """No shared files: ten weeks of a generated log on a busy machine."""
    setting = Plain(Cluster.parse("1x8"), "slurm")
    run = played(log_of(10), setting)
    options = Options(futures=60, horizon_s=4 * DAY_S)
    week = 7 * DAY_S
    found = backtest(run, setting, 4 * week, 10 * week, 13 * 3600.0, options)
    assert found.jobs > 200
    assert 0.70 <= found.covered <= 0.90
    assert np.abs(np.array(found.forecast) - found.happened).max() < 0.1


def test_backtests_need_snapshots():
    run = played(log_of(1), setting := Plain(Cluster.parse("1x8"), "fifo"))
    with pytest.raises(GpuschedError, match="an end after the first snapshot"):
        backtest(run, setting, 5.0, 5.0, 1.0, Options(futures=1))
    with pytest.raises(GpuschedError, match="no job has ended"):
        run.history(0.0)


# --- commands


DAY = "2025-03-10"
SACCT = "JobID|User|Account|Partition|Submit|Start|End|Elapsed|Timelimit|State|AllocTRES"
QUEUE = """JOBID|USER|STATE|TIME|TIME_LIMIT|SUBMIT_TIME|START_TIME|NODES|NODELIST|REASON|TRES_PER_NODE
901|u1|RUNNING|1:00:00|4:00:00|2025-03-10T10:00:00|2025-03-10T11:00:00|1|g1|None|gres/gpu:8
902|u2|PENDING|0:00|4:00:00|2025-03-10T11:30:00|N/A|1||Priority|gres/gpu:4
903|u2|PENDING|0:00|4:00:00|2025-03-10T11:40:00|N/A|1||Priority|gres/gpu:4
904|u3|PENDING|0:00|4:00:00|2025-03-10T11:50:00|N/A|2||Priority|gres/gpu:8
"""


@pytest.fixture
def files(tmp_path):
    rows = [SACCT]
    for i in range(60):
        day, hour = 1 + i // 8, (i * 3) % 24
        rows.append(
            f"{i}|u{i % 3}|a|gpu|2025-03-{day:02d}T{hour:02d}:00:00|2025-03-{day:02d}T{hour:02d}:00:00|"
            f"2025-03-{day:02d}T{hour:02d}:{10 + i % 40}:00|00:{10 + i % 40}:00|04:00:00|COMPLETED|gres/gpu=4"
        )
    (tmp_path / "jobs.txt").write_text("\n".join(rows) + "\n")
    (tmp_path / "queue.txt").write_text(QUEUE)
    return tmp_path


def run_command(*words):
    return CliRunner().invoke(app, ["twin", *map(str, words)])


def run_tool(*words):
    return CliRunner().invoke(tools_app, [*map(str, words)])


def test_the_command_forecasts_each_queued_job(files):
    result = run_command(
        "forecast", "--snapshot", f"squeue:{files / 'queue.txt'}", "--history", f"slurm:{files / 'jobs.txt'}",
        "--cluster", "1x8", "--futures", 40, "--output", files / "out.csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "1 jobs run on 8 GPUs, 3 wait for 24" in result.output
    assert "no forecast for 1 jobs" in result.output
    assert "904" in result.output
    rows = list(csv.DictReader((files / "out.csv").read_text().splitlines()))
    assert [row["job"] for row in rows] == ["902", "903"]
    for row in rows:
        chances = [float(row[f"within_{hours}h"]) for hours in (1, 4, 24)]
        assert chances == sorted(chances)
        assert chances[-1] == 1.0
        assert float(row["low_s"]) <= float(row["median_s"]) <= float(row["high_s"])


NODES = """\
NodeName=g1 Gres=gpu:8 State=MIXED+DRAIN
NodeName=g2 Gres=gpu:8 State=DOWN*
NodeName=g3 Gres=gpu:8 State=IDLE
NodeName=c1 State=DOWN
"""


@pytest.mark.parametrize("played", ["--cluster", "--twin"])
def test_drained_and_down_nodes_get_no_forecast_starts(files, played):
    """Of three nodes, only g3 may start jobs: 902 and 903 share it, and 904 of 16 GPUs never starts."""
    (files / "nodes.txt").write_text(NODES)
    machines = ("--cluster", f"slurm:{files / 'nodes.txt'}")
    if played == "--twin":
        groups = Cluster.parse("3x8").groups
        pools = (Pool("gpu", groups, node_names=("g3", "g1", "g2")),)  # in another order than the file
        write_twin(Twin("slurm:x", "slurm", pools), files / "twin.json")
        machines = ("--twin", files / "twin.json", "--nodes", f"slurm:{files / 'nodes.txt'}", "--anyway")
    words = (
        "forecast", "--snapshot", f"squeue:{files / 'queue.txt'}", "--history", f"slurm:{files / 'jobs.txt'}",
        *machines, "--futures", 20, "--no-arrivals", "--output", files / "out.csv",
    )  # fmt: skip
    result = run_command(*words)
    assert result.exit_code == 0, result.output
    assert "2 nodes take no new jobs" in result.output
    rows = {row["job"]: row for row in csv.DictReader((files / "out.csv").read_text().splitlines())}
    assert [rows[job]["within_1h"] for job in ("902", "903")] == ["1.0000", "1.0000"]
    assert (rows["904"]["within_24h"], rows["904"]["low_s"]) == ("0.0000", "")
    (files / "nodes.txt").write_text(NODES.replace("DRAIN", "IDLE").replace("DOWN*", "IDLE"))
    assert run_command(*words).exit_code == 0
    rows = {row["job"]: row for row in csv.DictReader((files / "out.csv").read_text().splitlines())}
    assert rows["904"]["within_24h"] == "1.0000"


@pytest.mark.parametrize("spec", ["fifo", "slurm", "slurm:backfill=conservative"])
def test_jobs_on_closed_nodes_run_on_and_nothing_follows_them(spec):
    """Node a is drained under r, b is down, c runs s: the queue goes through c, one job after the other."""
    running = (PresentJob("r", 4, 0.0, 50.0, nodes={"a": 4}), PresentJob("s", 4, 0.0, 0.0, nodes={"c": 4}))
    queued = tuple(PresentJob(name, 4, 10.0) for name in "xy")
    now = Snapshot(50.0, running, queued, node_names=("a", "b", "c"), closed=("a", "b"))
    options = Options(futures=5, arrivals=False)
    history = History(past([100.0] * 30))
    plain = Plain(Cluster.parse("3x4"), spec)
    assert sampled_starts(now, plain, history, options).tolist() == [[50.0, 150.0]] * 5
    opened = dataclasses.replace(now, closed=("b",))
    np.testing.assert_allclose(sampled_starts(opened, plain, history, options), [[50.0, 100.0]] * 5, atol=0.01)
    with pytest.raises(GpuschedError, match="node z is closed, but no machine has this name"):
        sampled_starts(dataclasses.replace(now, closed=("z",)), plain, history, options)


def test_the_history_has_no_jobs_that_had_not_ended_by_the_snapshot(tmp_path):
    """Job 2 arrives at 10:00, but waits until 12:00, so at 11:30 nobody knows that it runs for 5 min."""
    rows = [
        f"1|u|a|gpu|{DAY}T09:00:00|{DAY}T09:00:00|{DAY}T09:10:00|00:10:00|04:00:00|COMPLETED|gres/gpu=4",
        f"2|u|a|gpu|{DAY}T10:00:00|{DAY}T12:00:00|{DAY}T12:05:00|00:05:00|04:00:00|COMPLETED|gres/gpu=4",
    ]
    (tmp_path / "jobs.txt").write_text("\n".join([SACCT, *rows]) + "\n")
    now_s = (datetime.fromisoformat(f"{DAY}T11:30:00") - datetime(1970, 1, 1)).total_seconds()
    assert _history(f"slurm:{tmp_path / 'jobs.txt'}", now_s).workload.jobs["duration_s"].tolist() == [600.0]


def test_a_job_whose_gpu_type_no_machine_has_gets_no_forecast(files):
    """The one node has A100: 902 asks for them, 903 for any, and 904 for H100."""
    queue = files / "queue.txt"
    text = QUEUE.replace("g1|None|gres/gpu", "g1|None|gres/gpu:a100").replace(
        "Priority|gres/gpu:4", "Priority|gres/gpu:A100:4", 1
    )
    queue.write_text(text.replace("|2||Priority|gres/gpu:8", "|1||Priority|gres/gpu:h100:8"))
    header, *rows = (files / "jobs.txt").read_text().splitlines()
    asking = [f"{header}|ReqTRES", *(f"{row}|gres/gpu:h100=4" for row in rows)]
    (files / "jobs.txt").write_text("\n".join(asking) + "\n")
    result = run_command(
        "forecast", "--snapshot", f"squeue:{queue}", "--history", f"slurm:{files / 'jobs.txt'}",
        "--cluster", "1x8@a100", "--futures", 20, "--output", files / "out.csv",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "no forecast for 1 jobs, which cannot start as they are (no GPUs of type h100): 904" in result.output
    assert "note: of the history, 60 jobs ask for a GPU type other than a100, and run on any" in result.output
    rows = list(csv.DictReader((files / "out.csv").read_text().splitlines()))
    assert [row["job"] for row in rows] == ["902", "903"]
    result = run_command(
        "forecast", "--snapshot", f"squeue:{queue}", "--history", f"slurm:{files / 'jobs.txt'}",
        "--cluster", "1x8", "--futures", 20, "--output", files / "out.csv",
    )  # fmt: skip
    assert "2 queued jobs ask for another GPU type than V100, as untold ones count: they run on any" in result.output
    assert "no forecast" not in result.output


def test_wrong_calls_are_told(files):
    base = ["forecast", "--history", f"slurm:{files / 'jobs.txt'}", "--snapshot"]
    queue = f"squeue:{files / 'queue.txt'}"
    for words, text in (
        ([*base, queue], "--cluster or --twin is missing"),
        ([*base, "kubectl:x", "--cluster", "1x8"], "unknown format of a snapshot 'kubectl'"),
        ([*base, queue, "--cluster", "1x8", "--scheduler", "nobody"], "unknown scheduler"),
        ([*base, queue, "--cluster", "1x8", "--at", "noon"], "--at 'noon'"),
    ):
        result = run_command(*words)
        assert result.exit_code == 2
        assert text in result.output


def test_the_command_scores_forecasts_of_the_past(tmp_path):
    jobs = log_of(5, seed=2, load=1.1).jobs
    lines = ["job_id,arrival_s,service_sec,gpu_count"]
    lines += [f"{i},{job['arrival_s']:.0f},{max(job['duration_s'], 1):.0f},{job['gpus']}" for i, job in enumerate(jobs)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    words = ("calibration", f"helios:{tmp_path / 'log.csv'}", "--cluster", "1x8", "--draw-limits")
    result = run_tool(*words, "--first", 3, "--held", 2, "--every", 25, "--futures", 20, "--horizon", 3)
    assert result.exit_code == 0, result.output
    assert "80 % intervals of" in result.output
    assert all(f"start within {hours} h" in result.output for hours in HOURS)
    late = run_tool(*words, "--first", 8, "--held", 1, "--every", 100, "--futures", 2)
    assert late.exit_code != 0
    assert "choose --first, --held" in str(late.output) + str(late.exception)
