"""Errors of schedulers that stall or give invalid decisions name jobs and remedy."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from helpers import begin, play, unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError, SchedulerError
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import ClusterView, Decision, Preempt, Scheduler, Start, Wait, simulate


class Lazy(Scheduler):
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        return ()


class Procrastinator(Scheduler):
    def decide(self, view: ClusterView) -> Iterable[Decision]:
        yield Wait(view.now_s + 1)


@pytest.mark.parametrize("round_s", [0.0, 60.0])
@pytest.mark.parametrize("scheduler", [Lazy(), Procrastinator()], ids=["lazy", "procrastinator"])
def test_a_stall_names_the_jobs(scheduler: Scheduler, round_s: float) -> None:
    instance = unit_instance([0] * 7, [1] * 7, [5] * 7, round_s=round_s)
    with pytest.raises(SchedulerError, match=r"stalls at .*7 jobs wait \(ids 0, 1, 2, 3, 4, \.\.\.\)"):
        simulate(instance, scheduler)


def test_a_stall_names_ids_not_rows() -> None:
    instance = unit_instance([0, 0], [1, 1], [5, 5])
    jobs = instance.workload.jobs.copy()
    jobs["id"] = [901, 902]
    with pytest.raises(SchedulerError, match=r"ids 901, 902\)"):
        simulate(Instance(instance.cluster, Workload(jobs, instance.workload.profiles)), Lazy())


def test_a_rule_that_refuses_a_gang_for_ever_is_a_stall() -> None:
    instance = unit_instance([0], [8], [5], "2x4/1")
    with pytest.raises(SchedulerError, match="stalls at 0 s"):
        simulate(instance, make_scheduler("fifo:placement=rack"))


def test_a_tuple_is_not_a_decision() -> None:
    simulation = begin(unit_instance([0], [1], [5]))
    for thing in ((0, "pack"), None, 0, "start"):
        with pytest.raises(GpuschedError, match="is not a decision: use Start, Resize, Preempt, Lease, Refuse or Wait"):
            simulation.apply(thing)  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", [Start(2**70), Preempt(-(2**70)), Start(2**31), Start(0, gpus=(2**40,))])
def test_job_and_gpu_numbers_out_of_range_are_refused(decision: Decision) -> None:
    assert begin(unit_instance([0], [1], [5])).apply(decision) != ""


def test_a_job_that_is_no_whole_number_is_an_error() -> None:
    simulation = begin(unit_instance([0, 0], [1, 1], [5, 5]))
    for job in (0.5, "0", None, float("nan")):
        with pytest.raises(GpuschedError, match="whole number"):
            simulation.apply(Start(job))  # type: ignore[arg-type]
    assert simulation.arrays.world["running"] == 0


def test_a_faulty_decision_in_a_list_names_the_lines_of_the_scheduler() -> None:
    class Listing(Scheduler):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            return [("start", 0)]  # type: ignore[list-item]

    with pytest.raises(GpuschedError, match="is not a decision") as caught:
        simulate(unit_instance([0], [1], [10]), Listing())
    line = Listing.decide.__code__.co_firstlineno
    assert caught.value.__notes__ == [f'  File "{__file__}", line {line}, in decide']


def test_a_stall_tells_why_the_last_decision_was_refused() -> None:
    class Lost(Scheduler):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            return [Start(99_999)]

    with pytest.raises(SchedulerError, match="its last decision was refused: no such job"):
        simulate(unit_instance([0], [1], [10]), Lost())


def test_a_scheduler_that_returns_none_is_an_error() -> None:
    class Forgetful(Scheduler):
        def decide(self, view: ClusterView) -> Iterable[Decision]:
            return None  # type: ignore[return-value]

    with pytest.raises(SchedulerError, match="yield decisions or return a list"):
        play(unit_instance([0], [1], [10]), Forgetful())
