"""Entries of elastic jobs: resizes and sizes of starts replay to the same log, and false resizes are refused."""

from __future__ import annotations

import msgspec
import pytest
from entry_case import told, with_decisions

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import EntryError
from gpusched_env.leaderboard import record, replay
from gpusched_env.leaderboard.tracks import Track
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Preempt, Resize, Scheduler, Start, simulate
from gpusched_env.traces.elastic import amdahl, make_elastic
from tools.leaderboard.left_out import misfits


def two_jobs() -> Instance:
    jobs = Workload.from_columns([0.0, 50.0], [2, 2], duration_s=[300.0, 300.0])
    return Instance(Cluster.parse("2x4"), make_elastic(jobs, amdahl(0.1), 1, 4, step=1), None, Semantics(0.0, 0.0, 0.0))


class Grows(Scheduler):
    """Start each job on one GPU, grow it to three at the next decision point, and ask for what changes nothing."""

    name = "grows"

    def decide(self, view: ClusterView):
        for job in view.running.tolist():
            yield Resize(job, 3, "spread")
            yield Resize(job, 3)
        for job in view.waiting.tolist():
            yield Start(job, size=1)


def test_resizes_are_recorded_once_with_their_gpus() -> None:
    log, decisions = record(two_jobs(), Grows())
    found = told(decisions)
    kinds = [type(decision) for decision in found]
    assert kinds == [Start, Resize, Start, Resize]
    assert [len(decision.gpus or ()) for decision in found] == [1, 3, 1, 3]
    assert replay(two_jobs(), 0, decisions).digest() == log.digest() == simulate(two_jobs(), Grows()).digest()


@pytest.mark.parametrize("spec", ["max-min", "optimus", "afs", "afs-p", "tiresias-elastic", "pollux:generations=4"])
def test_elastic_schedulers_replay_to_the_same_log(spec: str) -> None:
    instance = get_scenario("pollux-64-v0:jobs=24,load=6").instance(3)
    log, decisions = record(instance, make_scheduler(spec))
    assert "R" in decisions.kinds
    assert replay(instance, 0, decisions).digest() == log.digest() == simulate(instance, make_scheduler(spec)).digest()


@pytest.mark.parametrize(
    ("number", "other", "says"),
    [
        (1, Resize(0, 1, gpus=(0,)), "has no effect: the gang has these GPUs already"),
        (1, Resize(0, 3, gpus=(0, 1, 9)), "is refused"),
        (1, Resize(1, 2, gpus=(0, 1)), "is refused|knows the future"),
        (1, Preempt(1), "is refused|knows the future"),
    ],
)
def test_false_resizes_are_refused(number: int, other: Resize, says: str) -> None:
    instance = two_jobs()
    _, decisions = record(instance, Grows())
    false = told(decisions)
    false[number] = other
    with pytest.raises(EntryError, match=says):
        replay(instance, 0, with_decisions(decisions, false))


def test_a_resize_without_its_gpus_is_refused() -> None:
    _, decisions = record(two_jobs(), Grows())
    short = msgspec.structs.replace(decisions, gpu_counts=decisions.gpu_counts[:-1], gpus=decisions.gpus[:-3])
    with pytest.raises(EntryError, match="gpu_counts has 3 values for 4"):
        replay(two_jobs(), 0, short)


def test_schedulers_of_sizes_fit_tracks_with_elastic_jobs() -> None:
    elastic, rigid = (
        Track("test", "Test", "For tests.", name, reports=1).problem() for name in ("pollux-64-v0", "tiny-v1")
    )
    on_elastic, on_rigid = misfits(elastic), misfits(rigid)
    assert on_elastic["max-min"] == on_elastic["pollux"] == ""
    assert on_rigid["max-min"] == "needs elastic jobs"
    assert on_rigid["fifo"] == on_elastic["fifo"] == ""
