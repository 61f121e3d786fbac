"""Runs that begin with running and waiting jobs (simulator/past.py), and runs whose run times change."""

import numpy as np
import pytest
from helpers import random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import FAIL, PREEMPT
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partitions, Reservation
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import Lease, Move, Preempt, Scheduler, Simulation, Start, begin, moves_of, simulate
from tests.core.test_failures import random_outages

# Schedulers without a memory, so that one that begins at the cut decides as one that has seen the past.
MEMORYLESS = (
    "fifo", "fifo-skip", "fifo-easy", "sjf", "ssf", "srtf", "slurm:bf_interval_s=0",
    "slurm:bf_interval_s=0,backfill=easy,gpu_weight=1000", "slurm:bf_interval_s=0,size_weight=500",
)  # fmt: skip


class Leasing(Scheduler):
    """First come, first served; every gang gets a lease of a minute."""

    def decide(self, view):
        for job in view.waiting:
            yield Start(int(job))
            if not view.refusal:
                yield Lease(int(job), view.now_s + 60.0)


@settings(max_examples=60, deadline=None)
@given(
    spec=st.sampled_from(MEMORYLESS),
    seed=st.integers(0, 5),
    moment=st.floats(0, 1.05),
    at_event=st.booleans(),
    round_s=st.sampled_from([0.0, 0.0, 60.0]),
    crashes=st.sampled_from([0, 0, 30]),
)
def test_the_cut_of_a_run_at_any_moment_continues_to_an_equal_digest(spec, seed, moment, at_event, round_s, crashes):
    if spec.startswith("slurm"):
        round_s = 0.0
    instance = random_instance(seed, 60, round_s=round_s, detection_s=20.0, checkpoint_interval_s=200.0)
    instance.outages = random_outages(seed, len(instance.cluster.nodes), 5_000.0, crashes) if crashes else None
    whole = simulate(instance, make_scheduler(spec))
    assert (FAIL in whole.events["kind"]) == (crashes > 0)
    times = whole.events["time_s"]
    now_s = float(times[min(int(moment * len(times)), len(times) - 1)] if at_event else moment * times[-1])
    cut = begin(instance, moves_of(instance, whole, now_s), now_s, ask=False)
    past = times <= now_s
    np.testing.assert_array_equal(cut.log().events, whole.events[past])
    cut.run(make_scheduler(spec))
    assert cut.log().digest() == whole.digest()


def test_a_run_begins_with_running_and_waiting_jobs():
    # Job 0 holds 3 of 4 GPUs since 10 s and runs for 100 s; job 1 waits for 2 GPUs; job 2 comes later.
    instance = unit_instance([10, 20, 60], [3, 2, 1], [100, 50, 5], "1x4")
    run = begin(instance, [Move(10.0, Start(0, gpus=(0, 1, 3)))], 40.0)
    assert run.now_s == 40.0
    assert run.has_begun
    run.run(make_scheduler("fifo-skip"))
    validate(instance, run.log())
    times = job_times(instance, run.log())
    assert times["finish_s"].tolist() == [110.0, 160.0, 65.0]


def test_a_scheduler_is_asked_at_the_present():
    instance = unit_instance([10, 20], [2, 2], [100, 50], "1x4")
    past = [Move(10.0, Start(0, gpus=(0, 1)))]
    asked = begin(instance, past, 40.0)
    asked.run(make_scheduler("fifo"))
    assert job_times(instance, asked.log())["first_start_s"].tolist() == [10.0, 40.0]
    cut = begin(instance, past, 40.0, ask=False)
    cut.run(make_scheduler("fifo"))
    assert job_times(instance, cut.log())["first_start_s"].tolist() == [10.0, 110.0]


@pytest.mark.parametrize(
    ("moves", "now_s", "text"),
    [
        ([Move(10.0, Start(0, gpus=(0, 0)))], 20.0, "explicit GPU"),
        ([Move(5.0, Start(0, gpus=(0, 1)))], 20.0, "has not arrived"),
        ([Move(10.0, Start(0, gpus=(0, 1))), Move(15.0, Preempt(1))], 20.0, "not arrived|not running"),
        ([Move(30.0, Start(0, gpus=(0, 1)))], 20.0, "not in the past"),
        ([], -1.0, "at least 0"),
        ([], float("nan"), "at least 0"),
    ],
)
def test_an_impossible_past_is_refused(moves, now_s, text):
    with pytest.raises(GpuschedError, match=text):
        begin(unit_instance([10, 20], [2, 2], [100, 50], "1x4"), moves, now_s)


def test_leases_cannot_be_told_from_a_log():
    instance = random_instance(0, 30)
    log = simulate(instance, Leasing())
    assert "lease-end" in " ".join(log.lines())
    with pytest.raises(GpuschedError, match="leases"):
        moves_of(instance, log)


def test_changed_run_times_keep_what_has_been_done():
    instance = unit_instance([0, 0, 0], [2, 2, 4], [100, 50, 10], "1x4")
    run = begin(instance, [Move(0.0, Start(0, gpus=(0, 1))), Move(0.0, Start(1, gpus=(2, 3)))], 30.0)
    run.change_run_times(np.array([40.0, 20.0, 7.0]))  # job 1 has run for 30 s already
    run.run(make_scheduler("fifo"))
    times = job_times(instance, run.log())
    assert times["finish_s"].tolist() == [40.0, 30.0, 47.0]


def test_changed_run_times_keep_time_limits():
    # Both jobs have run for 30 s. Job 0 is killed at its limit of 60 s; job 1 ends earlier.
    workload = Workload.from_columns([0.0, 0.0], [2, 2], [50.0, 50.0], estimate_s=[60.0, 60.0])
    instance = Instance(Cluster.parse("1x4"), workload, semantics=Semantics(kill_at_limit=True))
    run = begin(instance, [Move(0.0, Start(0, gpus=(0, 1))), Move(0.0, Start(1, gpus=(2, 3)))], 30.0)
    run.change_run_times(np.array([100.0, 40.0]))
    run.run(make_scheduler("fifo"))
    assert job_times(instance, run.log())["finish_s"].tolist() == [60.0, 40.0]


@pytest.mark.parametrize("times", [[1.0], [1.0, 0.0], [1.0, np.inf], [np.nan, 1.0]])
def test_wrong_run_times_are_refused(times):
    run = Simulation(unit_instance([0, 0], [1, 1], [5, 5]))
    with pytest.raises(GpuschedError, match="run_s"):
        run.change_run_times(np.array(times))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 20), spec=st.sampled_from(["fifo-skip", "srtf", "slurm:bf_interval_s=0"]))
def test_a_run_with_changed_run_times_equals_a_run_of_these_times(seed, spec):
    rng = np.random.default_rng(seed)
    arrival, gpus = np.sort(rng.integers(0, 500, 30)).astype(float), rng.integers(1, 5, 30)
    first, second = rng.integers(10, 300, 30).astype(float), rng.integers(10, 300, 30).astype(float)
    run = Simulation(unit_instance(arrival, gpus, first, "2x4"))
    run.change_run_times(second)
    run.run(make_scheduler(spec))
    other = unit_instance(arrival, gpus, second, "2x4")
    assert run.log().digest() == simulate(other, make_scheduler(spec)).digest()


@pytest.mark.parametrize("spec", ["fifo", "srtf"])
@pytest.mark.parametrize("crashes", [0, 12])
@pytest.mark.parametrize(("round_s", "checkpoint_s"), [(0.0, 0.0), (0.0, 20.0), (60.0, 20.0)])
def test_the_cut_of_a_run_whose_gangs_left_reserved_nodes_continues_to_an_equal_digest(
    spec, round_s, checkpoint_s, crashes
):
    """Reservations preempt gangs, with rounds also between decision points; the log tells no difference."""
    plain = random_instance(3, 40, round_s=round_s, checkpoint_s=checkpoint_s, restore_s=10.0)
    end_s = float(plain.workload.jobs["arrival_s"][-1])
    closed = [Reservation(f"r{i}", end_s * part, end_s * (part + 0.1), nodes="0") for i, part in enumerate((0.25, 0.6))]
    instance = Instance(
        plain.cluster, plain.workload, plain.network, plain.semantics, partitions=Partitions(reservations=closed),
        outages=random_outages(3, len(plain.cluster.nodes), end_s, crashes),
    )  # fmt: skip
    whole = simulate(instance, make_scheduler(spec))
    times = whole.events["time_s"]
    made = [float(t) for t in times[np.isin(whole.events["kind"], (PREEMPT, FAIL))]]
    assert (PREEMPT in whole.events["kind"], FAIL in whole.events["kind"]) == (True, crashes > 0)
    for now_s in [*made, *np.nextafter(made, np.inf), 0.5 * times[-1], 0.9 * times[-1]]:
        cut = begin(instance, moves_of(instance, whole, now_s), now_s, ask=False)
        np.testing.assert_array_equal(cut.log().events, whole.events[times <= now_s])
        cut.run(make_scheduler(spec))
        assert cut.log().digest() == whole.digest()
