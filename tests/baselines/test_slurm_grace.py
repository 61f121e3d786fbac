"""Slurm's preemption with grace times and modes of partitions: examples by hand, and when victims free their GPUs."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from helpers import play
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusched_env import Cluster, Instance, Lease, Semantics, Workload
from gpusched_env.baselines.slurm.scheduler import Slurm
from gpusched_env.errors import ScenarioError, SchedulerError
from gpusched_env.event_log import COMPLETE, PREEMPT, RESUME, START
from gpusched_env.metrics import job_times, validate
from gpusched_env.problem.partitions import Partition, Partitions
from gpusched_env.problem.tenants import PRIORITY
from gpusched_env.simulator import ClusterView, Decision, Until, simulate

MINUTE_S = 60.0
FREE = Semantics(checkpoint_s=0.0, restore_s=0.0)


def problem(nodes: int, rows: list[tuple[str, float, int, float]], *parts: Partition) -> Instance:
    """Jobs (partition, arrival [min], nodes, minutes) on nodes of one GPU; limits are the true run times."""
    names, arrival, gpus, minutes = zip(*rows, strict=True)
    seconds = np.array(minutes) * MINUTE_S
    workload = Workload.from_columns(
        np.array(arrival) * MINUTE_S, gpus, seconds, estimate_s=seconds, attributes={"partition": np.array(names)}
    )
    return Instance(Cluster.homogeneous(nodes, 1), workload, semantics=FREE, partitions=Partitions(parts))


def events(instance: Instance, scheduler: Slurm, *kinds: int) -> list[tuple[float, int]]:
    """Times [min] and jobs of the events of these kinds."""
    log = play(instance, scheduler)
    chosen = log.events[np.isin(log.events["kind"], kinds)]
    return list(zip((chosen["time_s"] / MINUTE_S).tolist(), chosen["job"].tolist(), strict=True))


def low(grace_min: float, **fields: object) -> Partition:
    return Partition("low", grace_s=grace_min * MINUTE_S, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("minutes", "grace", "ends", "begins"),
    [(60.0, 5.0, [15.0], 15.0), (12.0, 5.0, [], 12.0), (60.0, 0.0, [10.0], 10.0), (60.0, 90.0, [], 60.0)],
)
def test_a_victim_frees_its_gpus_at_its_end_or_when_its_grace_time_is_over(
    minutes: float, grace: float, ends: list[float], begins: float
) -> None:
    """high needs the node from minute 10 on."""
    instance = problem(1, [("low", 0, 1, minutes), ("high", 10, 1, 20)], low(grace), Partition("high", tier=2))
    scheduler = Slurm(preempt="tier")
    assert events(instance, scheduler, PREEMPT) == [(end, 0) for end in ends]
    assert events(instance, scheduler, START) == [(0.0, 0), (begins, 1)]
    assert events(instance, scheduler, RESUME) == [(begins + 20.0, 0) for _ in ends]  # low goes on from its checkpoint


def test_jobs_of_a_partition_whose_mode_is_off_are_not_preempted() -> None:
    parts = low(0.0, preempt_mode="off", nodes="0"), Partition("lowest", "1", tier=0), Partition("high", tier=2)
    rows = [("low", 0.0, 1, 60.0), ("lowest", 0.0, 1, 60.0), ("high", 10.0, 1, 20.0)]
    assert events(problem(2, rows, *parts), Slurm(preempt="tier"), PREEMPT) == [(10.0, 1)]
    rows[2] = ("high", 10.0, 2, 20.0)
    assert events(problem(2, rows, *parts), Slurm(preempt="tier"), PREEMPT) == []


def test_gpus_in_their_grace_time_are_not_asked_for_twice_and_backfill_plans_with_them() -> None:
    """At 10, high needs both nodes of low until 15, and node 2. Until then, a job of 4 min fits there, not one of 5."""
    parts = low(5.0), Partition("high", tier=2)
    rows = [("low", 0.0, 1, 60.0), ("low", 0.0, 1, 60.0), ("high", 10.0, 3, 20.0)]
    for minutes, begin in ((4.0, 11.0), (5.0, 35.0)):
        instance = problem(3, [*rows, ("low", 11.0, 1, minutes)], *parts)
        scheduler = Slurm(preempt="tier", bf_interval_s=0.0)
        assert events(instance, scheduler, PREEMPT) == [(15.0, 0), (15.0, 1)]
        assert (begin, 3) in events(instance, scheduler, START)
        assert (15.0, 2) in events(instance, scheduler, START)


def test_with_checkpoints_gpus_are_free_after_the_grace_time_and_the_checkpoint() -> None:
    instance = problem(1, [("low", 0, 1, 60.0), ("high", 10, 1, 20)], low(5.0), Partition("high", tier=2))
    slow = Instance(
        instance.cluster, instance.workload, semantics=Semantics(checkpoint_s=60.0, restore_s=0.0),
        partitions=instance.partitions,
    )  # fmt: skip
    assert events(slow, Slurm(preempt="tier"), START) == [(0.0, 0), (16.0, 1)]


def test_classes_have_a_grace_time_and_jobs_run_for_a_time_before_they_are_preempted() -> None:
    """Job 1 of the higher class arrives at 10; job 0 may be preempted from 30 on, when job 2 arrives."""
    workload = Workload.from_columns(
        [0.0, 600.0, 1800.0], [1, 1, 1], [3600.0, 600.0, 60.0], estimate_s=[3600.0, 600.0, 60.0],
        attributes={PRIORITY: np.array([0.0, 1.0, 0.0])},
    )  # fmt: skip
    instance = Instance(Cluster.homogeneous(1, 1), workload, semantics=FREE)
    assert events(instance, Slurm(preempt="class", grace_s=120.0), PREEMPT) == [(12.0, 0)]
    late = Slurm(preempt="class", grace_s=120.0, preempt_exempt_s=1800.0)
    assert events(instance, late, PREEMPT) == [(32.0, 0)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"preempt_mode": "suspend"}, "partition 'a': preempt_mode 'suspend' is not supported: .*take requeue"),
        ({"preempt_mode": "cancel"}, "'cancel' is not supported: no decision ends a running job"),
        ({"preempt_mode": "CANCEL"}, "'CANCEL' is not supported: no decision ends a running job"),
        ({"preempt_mode": "SUSPEND,GANG"}, "'SUSPEND,GANG' is not supported: .*take requeue"),
        ({"preempt_mode": 3}, "unknown preempt_mode '?3'?"),
        ({"preempt_mode": "of"}, "unknown preempt_mode 'of': did you mean 'off'"),
        ({"grace_s": -1.0}, "grace_s is -1.0: give a finite number of seconds >= 0"),
    ],
)
def test_modes_that_there_are_not_are_refused_by_name(fields: dict[str, object], told: str) -> None:
    with pytest.raises(ScenarioError, match=told):
        Partition("a", **fields)  # type: ignore[arg-type]
    with pytest.raises(SchedulerError, match="grace_s is -1"):
        Slurm(grace_s=-1.0)


class Recorded(Slurm):
    """Notes the grace times that it grants."""

    def reset(self, view: ClusterView) -> None:
        super().reset(view)
        self.granted: list[tuple[float, int, float]] = []

    def decide(self, view: ClusterView) -> Iterable[Decision]:
        for decision in super().decide(view):
            if isinstance(decision, Lease):
                self.granted.append((view.now_s, int(decision.job), decision.until_s))
            yield decision


@st.composite
def problems(draw: st.DrawFn) -> Instance:
    """Jobs of three tiers on overlapping nodes, with grace times and modes."""
    parts = tuple(
        Partition(
            f"p{i}", nodes, tier=i, grace_s=draw(st.sampled_from([0.0, 90.0, 700.0])),
            preempt_mode=draw(st.sampled_from(["requeue", "requeue", "off"])),
        )
        for i, nodes in enumerate(("0-3", "0-1", "1-3"))
    )  # fmt: skip
    count = draw(st.integers(2, 12))
    of_job = [draw(st.integers(0, 2)) for _ in range(count)]
    minutes = np.array([draw(st.integers(1, 30)) for _ in range(count)], float)
    workload = Workload.from_columns(
        [MINUTE_S * draw(st.integers(0, 20)) for _ in range(count)], [draw(st.integers(1, 2)) for _ in range(count)],
        minutes * MINUTE_S, estimate_s=minutes * MINUTE_S,
        attributes={"partition": np.array([f"p{p}" for p in of_job])},
    )  # fmt: skip
    rules = Semantics(checkpoint_s=draw(st.sampled_from([0.0, 20.0])), restore_s=5.0)
    return Instance(Cluster.homogeneous(4, 1), workload, semantics=rules, partitions=Partitions(parts))


@settings(max_examples=120, deadline=None)
@given(problems(), st.sampled_from(["conservative", "easy", "none"]), st.sampled_from([0.0, 400.0]))
def test_a_victim_stops_when_its_work_is_done_or_its_grace_time_is_over(
    instance: Instance, backfill: str, exempt_s: float
) -> None:
    """And only jobs of partitions whose mode is requeue, of lower tiers than some waiting job, are victims."""
    scheduler = Recorded(preempt="tier", backfill=backfill, bf_interval_s=0.0, preempt_exempt_s=exempt_s)
    everything = Until(0, len(instance.workload), grace_s=1e9)  # with a stopping condition, decide is asked
    log = simulate(instance, scheduler, until=everything)
    validate(instance, log)
    assert not np.isnan(job_times(instance, log)["finish_s"]).any()
    assert instance.node_sets is not None
    parts, of_job = instance.node_sets.partitions, instance.node_sets.partition
    ends = {job: [e for e in log.events if e["job"] == job] for job in range(len(instance.workload))}
    graced = 0
    for now_s, job, until_s in scheduler.granted:
        assert until_s == now_s + parts[of_job[job]].grace_s
        started = max(e["time_s"] for e in ends[job] if e["kind"] in (START, RESUME) and e["time_s"] < now_s)
        assert now_s - started >= exempt_s
        stop = next(e for e in ends[job] if e["time_s"] > now_s and e["kind"] in (PREEMPT, COMPLETE))
        if stop["kind"] == PREEMPT:
            assert stop["time_s"] == until_s
            graced += 1
        else:
            assert stop["time_s"] <= until_s
    for event in log.events[log.events["kind"] == PREEMPT]:
        part = parts[of_job[event["job"]]]
        assert part.preempt_mode == "requeue"
        graced -= part.grace_s > 0
    assert graced == 0  # each preemption of a partition with a grace time was announced
    assert (
        simulate(instance, Slurm(**{k: v for k, v in vars(scheduler).items() if k in FIELDS})).digest() == log.digest()
    )


FIELDS = ("preempt", "backfill", "bf_interval_s", "preempt_exempt_s")
