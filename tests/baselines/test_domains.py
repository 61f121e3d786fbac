"""Declared needs: outside its domain a scheduler is another policy, and equal schedules are explained by needs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar

import pytest

from gpusched_env.baselines import BASELINES, list_baselines, make_scheduler, register_scheduler
from gpusched_env.baselines.domains import NEEDS, needs_met, needs_of, outside_domain, register_need
from gpusched_env.errors import SchedulerError
from gpusched_env.evaluation import evaluate
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Scheduler, simulate

SEED = 200_002
WHOLE_RUNS = {"themis", "themis-lease", "pollux", "gavel-ftf", "chronus"}  # a second and more each, and never equal


def drawn(name: str, **changes: object) -> Instance:
    """A few jobs of a registered scenario."""
    scenario = get_scenario(name)
    return scenario.replace(workload=dataclasses.replace(scenario.workload, **changes), tracked_window=None).instance(
        SEED
    )


def crowded() -> Instance:
    """40 gangs of several sizes queue for 16 GPUs in two racks; no sharing, one GPU type, no tenants."""
    scenario = get_scenario("dally-poisson-v1")
    jobs = dataclasses.replace(scenario.workload, jobs=40, load=0.9, max_gpus=8)
    return scenario.replace(groups=(NodeGroup(4, 4, nodes_per_rack=2),), workload=jobs).instance(SEED)


def schedule(instance: Instance, spec: str) -> str:
    return simulate(instance, make_scheduler(spec)).digest()


def test_rivals_of_other_problems_are_marked() -> None:
    """Of these four, two are shortest-job-first and an agnostic policy where no GPU is shared and all are alike."""
    instance = crowded()
    marks = {
        spec: outside_domain(make_scheduler(spec), instance) for spec in ("dally", "tiresias", "gavel", "sjf-bsbf")
    }
    assert marks == {
        "dally": (), "tiresias": (), "gavel": ("several GPU types",), "sjf-bsbf": ("GPU sharing",),
    }  # fmt: skip


def test_equal_schedules_are_explained_by_needs() -> None:
    """Of schedulers with equal event logs, all but one are outside their domain, or variants of it."""
    instance, equal = crowded(), dict[str, list[str]]()
    for name in BASELINES:
        if name != "learned" and name not in WHOLE_RUNS and "node-gangs" not in BASELINES[name].needs:
            equal.setdefault(schedule(instance, name), []).append(name)
    groups = [names for names in equal.values() if len(names) > 1]
    assert sum(map(len, groups)) >= 15  # the claim is about something
    for names in groups:
        inside = [name for name in names if not outside_domain(make_scheduler(name), instance)]
        assert len({BASELINES[name].variant_of or name for name in inside}) <= 1, names


@pytest.mark.parametrize(
    ("need", "without", "spec", "simpler"),
    [
        ("sharing", crowded, "sjf-bsbf", "sjf"),
        ("sharing", crowded, "sjf-ffs", "sjf"),
        ("types", crowded, "gavel", "gavel-las"),
        ("tenants", crowded, "drf", "fifo-skip"),
        ("tenants", crowded, "volcano", "fifo-skip"),
        ("quotas", crowded, "kueue", "fifo-skip"),
        ("quotas", crowded, "capacity", "fifo-skip"),
        ("gangs", lambda: drawn("poisson-64-v1", jobs=300, load=1.5), "ssf", "sjf"),
        ("gangs", lambda: drawn("poisson-64-v1", jobs=300, load=1.5), "srsf", "srtf"),
        ("gangs", lambda: drawn("poisson-64-v1", jobs=100, load=1.5), "las-2d", "las"),
        ("copies", lambda: drawn("gavel-continuous-v1", jobs=30), "hadare", "hadare-single"),
    ],
)
def test_without_what_it_needs_a_scheduler_is_a_simpler_one(need, without, spec, simpler) -> None:
    """An identity of policies: there, sizes, shares or types that the scheduler weighs are all equal."""
    instance = without()
    assert need in needs_of(make_scheduler(spec))
    assert NEEDS[need].words in outside_domain(make_scheduler(spec), instance)
    assert schedule(instance, spec) == schedule(instance, simpler)


@pytest.mark.parametrize(
    ("name", "met"),
    [
        ("philly-64-v1", "gangs node-gangs spread"),
        ("poisson-64-v1", "node-gangs"),  # one GPU each
        ("leaf-spine-256-v1", "gangs links spread"),
        ("rar-160-v0", "estimates gangs links node-gangs spread"),
        ("hadar-60gpu-v1", "gangs spread types"),
        ("hadare-lab-v0", "copies node-gangs types"),
        ("bsbf-physical-30-v1", "gangs sharing spread"),
        ("elasticflow-v0", "deadlines gangs node-gangs sizes"),
        ("cohort-256-v0", "gangs quotas spread tenants"),
        ("dally-authors-v1", "gangs spread"),  # times by shape
    ],
)
def test_scenarios_meet_the_needs_of_what_they_are_made_for(name: str, met: str) -> None:
    scenario = get_scenario(name)
    assert needs_met(scenario.instance(scenario.seeds.report[0])) == set(met.split())


@pytest.mark.parametrize("spec", ["dally", "tiresias", "gavel", "hadar", "sjf-bsbf", "sjf-bco"])
def test_the_common_cell_is_in_the_domain_of_all_seed_papers(spec: str) -> None:
    scenario = get_scenario("common-96-v0")
    assert outside_domain(make_scheduler(spec), scenario.instance(scenario.seeds.report[0])) == ()


@pytest.mark.parametrize(
    ("spec", "needs"),
    [
        ("gavel:policy=fifo_perf", ("types",)),
        ("gavel:policy=max_sum_throughput_normalized_by_cost_perf_SLOs", ("types", "deadlines")),
        ("hadar:elastic=true", ("types", "sizes")),
        ("hadare", ("types", "node-gangs", "copies")),
        ("hadare:copies=1", ("types", "node-gangs")),
        ("sjf", ()),
        ("sjf:key=gpu-time", ("gangs",)),
        ("sjf-bsbf:order=fifo", ("sharing",)),
        ("dally:policy=tiresias", ("spread",)),
        ("slurm", ("tenants", "estimates")),
        ("slurm:limits=oracle", ("tenants",)),
        ("themis:app=tenant", ("tenants",)),
        ("gpusched_env.baselines.bsbf.scheduler:SjfBsbf", ("sharing",)),
        ("learned", ()),
        ("learned:elastic", ("sizes",)),
        ("learned:heterogeneous", ("types",)),
        ("learned:heterogeneous-orders", ("types",)),
        ("learned:sharing-partners", ("sharing",)),
        ("learned:sharing-packing", ()),  # it never shares
        ("learned:ring-all-reduce-orders", ()),
        ("learned:deadlines", ("sizes", "deadlines")),
    ],
)
def test_parameters_decide_what_a_scheduler_needs(spec: str, needs: tuple[str, ...]) -> None:
    assert needs_of(make_scheduler(spec), spec) == needs


def test_every_declared_need_is_registered_and_lists_leave_out_who_lacks_one() -> None:
    for name in list_baselines():
        assert set(BASELINES[name].needs) <= set(needs_of(make_scheduler(name))) <= set(NEEDS)
    assert {name for name in list_baselines() if "sharing" in BASELINES[name].needs} == {"sjf-bsbf", "sjf-ffs"}
    assert set(list_baselines({"sharing"})) - set(list_baselines(())) == {"sjf-bsbf", "sjf-ffs"}


class Greedy(Scheduler):
    """A user's scheduler, which is no dataclass."""

    needs: ClassVar = ("large",)

    def __init__(self, reserve: int = 1) -> None:
        self._reserve = reserve

    def decide(self, view):
        return view.list_schedule(view.waiting, "pack")


@pytest.fixture
def greedy() -> Iterator[None]:
    register_need("large", "clusters of 1,000 GPUs", lambda instance: instance.cluster.gpus >= 1_000)
    register_scheduler("greedy", "all at once", needs=("types",), reserve=2)(Greedy)
    yield
    del NEEDS["large"], BASELINES["greedy"]


@pytest.mark.usefixtures("greedy")
def test_users_register_needs_and_declare_them() -> None:
    instance = crowded()
    assert outside_domain(make_scheduler("greedy"), instance, "greedy") == (
        "several GPU types",
        "clusters of 1,000 GPUs",
    )
    assert outside_domain(Greedy(), instance) == ("clusters of 1,000 GPUs",)  # not made by its name
    assert "greedy" not in list_baselines(needs_met(instance))
    with pytest.raises(SchedulerError, match="need 'large' exists already"):
        register_need("large", "again", lambda instance: True)


def test_needs_are_checked_at_registration_and_before_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    for needs, words in ((("sharinq",), "unknown need 'sharinq': did you mean 'sharing'"), ("types", "write a tuple")):
        with pytest.raises(SchedulerError, match=f"scheduler 'lavish', needs: {words}"):
            register_scheduler("lavish", "all", needs=needs)

    def played(*_: object, **__: object) -> None:
        raise AssertionError("a run has begun")

    monkeypatch.setattr("gpusched_env.simulator.simulate", played)
    with pytest.raises(SchedulerError, match=r"needs: unknown need 'large'"):
        evaluate("tiny-v1", ["fifo", Greedy()], [0], progress=False)
    monkeypatch.setattr(Greedy, "needs", "types")
    with pytest.raises(SchedulerError, match=r"needs: write a tuple, \('types',\)"):
        evaluate("tiny-v1", ["fifo", Greedy()], [0], progress=False)


def test_a_need_that_is_not_registered_is_named() -> None:
    with pytest.raises(SchedulerError, match=r"scheduler '[Gg]reedy', needs: unknown need 'large'"):
        outside_domain(Greedy(), crowded())
