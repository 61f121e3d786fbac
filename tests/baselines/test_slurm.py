"""Slurm: the worked examples of its priorities and of backfill, and what backfill, limits and preemption guarantee."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import slurm_whole_cycles
from helpers import asked, finish, plain_python_digests, play, play_both, preemptions, random_instance, unit_instance
from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_reference import decayed_usage, fair_tree

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.slurm import priority
from gpusched_env.baselines.slurm.fair_share import FairTree, decay
from gpusched_env.errors import GpuschedError, ScenarioError
from gpusched_env.event_log import COMPLETE, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import job_times
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.partitions import Partition, Partitions
from gpusched_env.problem.qos import Qos
from gpusched_env.problem.tenants import PRIORITY, TENANT, Tenant, Tenants
from gpusched_env.problem.workload import Workload
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import Outcome, Simulation, simulate

DAY_S = 86_400.0
EXACT = "slurm:bf_interval_s=0,bf_resolution_s=1,bf_window_s=10000,bf_max_job_test=1000,queue_depth=1000"


def tenants_instance(
    arrival: list[float],
    gpus: list[int],
    duration: list[float],
    cluster: str = "1x4",
    names: list[str] | None = None,
    classes: list[float] | None = None,
    limits: list[float] | None = None,
    tree: tuple[Tenant, ...] = (),
) -> Instance:
    """Jobs with tenants, priority classes and time limits; preemption is free."""
    attributes = {name: np.array(v) for name, v in ((TENANT, names), (PRIORITY, classes)) if v is not None}
    workload = Workload.from_columns(arrival, gpus, duration, estimate_s=limits or duration, attributes=attributes)
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    machines = Cluster.parse(cluster)
    return Instance(machines, workload, Network("none"), rules, tenants=Tenants(tree) if tree else None)


def crowded(seed: int, jobs: int = 30, classes: bool = False, slack: float = 1.0) -> Instance:
    """Jobs of whole seconds and three tenants on eight GPUs, more than fit at a time."""
    rng = np.random.default_rng(seed)
    duration = rng.integers(1, 60, jobs).astype(float)
    return tenants_instance(
        np.cumsum(rng.integers(0, 12, jobs)).astype(float).tolist(),
        rng.integers(1, 9, jobs).tolist(),
        duration.tolist(),
        "2x4",
        rng.choice(["a", "b", "c"], jobs).tolist(),
        rng.integers(0, 3, jobs).astype(float).tolist() if classes else None,
        np.ceil(duration * rng.uniform(1.0, slack, jobs)).tolist(),
    )


# --- priority


def test_the_priorities_of_three_jobs_by_hand() -> None:
    """16 nodes x 64 CPUs x 8 GPUs; weights: age 1000, share 10000, size 500, partition 1000, QOS 2000, GPUs 2000."""
    waited_s, fair = (3 * DAY_S, 0.5 * DAY_S, 10 * DAY_S), (0.5, 0.75, 0.25)
    nodes, cpus, gpus = np.array([1, 4, 2]), np.array([8, 256, 32]), np.array([1, 32, 4])
    partition, qos, nice = (1.0, 1.0, 0.5), (0.5, 0.0, 1.0), (0, 100, 0)
    size = priority.size("large", nodes, cpus, 16, 1024, np.full(3, DAY_S))
    assert 500 * size == pytest.approx([17.578125, 125.0, 39.0625])
    points = [
        1000 * min(waited_s[i] / (7 * DAY_S), 1.0) + 10_000 * fair[i] + 500 * size[i] + 1000 * partition[i]
        + 2000 * qos[i] + 2000 * gpus[i] / 128 - nice[i]
        for i in range(3)
    ]  # fmt: skip
    assert [int(p) for p in points] == [7461, 9096, 6101]


def test_the_other_size_factors_by_hand() -> None:
    jobs = np.array([4]), np.array([64]), 16, 256, np.array([7200.0])
    assert priority.size("small", *jobs) == pytest.approx([0.75])
    assert priority.size("relative", *jobs) == pytest.approx([64 / 120 / 256])
    assert priority.of_largest(np.array([0.0, 5.0, 10.0])).tolist() == [0.0, 0.5, 1.0]
    assert priority.of_largest(np.zeros(2)).tolist() == [0.0, 0.0]


PARENT, WEIGHT = np.array([-1, 0, 0, 1, 1, 2, 2], np.int32), np.array([1.0, 60, 40, 3, 1, 1, 1])
USAGE = np.array([0.0, 0, 0, 900, 0, 80, 20])  # X: x1 900, x2 0; Y: y1 80, y2 20


def test_fair_tree_and_the_classic_factor_of_two_accounts_by_hand() -> None:
    tree = FairTree(PARENT, WEIGHT)
    assert tree.ranked(USAGE)[[6, 5, 4, 3]].tolist() == [1.0, 0.75, 0.5, 0.25]
    assert tree.classic(USAGE)[[6, 5, 4, 3]] == pytest.approx([0.8123, 0.7320, 0.3536, 0.25], abs=5e-5)
    assert tree.classic(USAGE, damping=2.0)[3] == pytest.approx(0.5)


def test_usage_decays_by_its_half_life() -> None:
    assert 1000 * decay(3.5 * DAY_S, 7 * DAY_S) == pytest.approx(707.1067811865476, rel=1e-15)
    assert decay(DAY_S, DAY_S) == 0.5
    assert decay(DAY_S, 0.0) == 1.0


@settings(max_examples=200)
@given(st.data())
def test_fair_tree_is_the_walk_of_the_manual(data: st.DataObject) -> None:
    """Few different numbers, so that users and accounts tie."""
    rows = data.draw(st.integers(2, 12))
    parent = [-1] + [data.draw(st.integers(0, row - 1)) for row in range(1, rows)]
    weight = [1.0] + [float(data.draw(st.integers(1, 3))) for _ in range(rows - 1)]
    used = st.sampled_from([0, 1, 2, 3, 11, 22, 33])
    usage = [0.0 if row in parent else float(data.draw(used)) for row in range(rows)]
    found = FairTree(np.array(parent, np.int32), np.array(weight)).ranked(np.array(usage))
    assert {row: found[row] for row in range(rows) if row not in parent} == fair_tree(parent, weight, usage)


@pytest.mark.parametrize("parent", [[-1, 0, 0, 0], [-1, 0, 0, 0, 1, 2, 3, 1]])
def test_levels_tie_where_they_tie_in_theory(parent: list[int]) -> None:
    """(1/5) / (1/4) and (3/5) / (3/4) differ in their last bits, and 1/5 : 3/5 = 1/4 : 3/4; users, and accounts."""
    leaves = [row for row in range(1, len(parent)) if row not in parent]
    for shares, used in itertools.product(
        itertools.product((1, 2, 3), repeat=3), itertools.product((0, 1, 3), repeat=3)
    ):
        weight, usage = np.ones(len(parent)), np.zeros(len(parent))
        weight[1:4], usage[leaves[:3]] = shares, used
        found = FairTree(np.array(parent, np.int32), weight).ranked(usage)
        assert {row: found[row] for row in leaves} == fair_tree(parent, weight.tolist(), usage.tolist())


@pytest.mark.parametrize("spec", ["slurm-multifactor", "slurm:fair_share_weight=1e4,fair_share=classic"])
def test_the_tenant_that_has_used_less_goes_first(spec: str) -> None:
    """Tenant a uses the GPUs until 1000 s; then the job of b overtakes the earlier one of a."""
    case = tenants_instance([0, 10, 20], [4, 4, 4], [1000, 50, 50], "1x4", ["a", "a", "b"])
    assert finish(case, spec) == [1000, 1100, 1050]
    assert finish(case, "slurm") == [1000, 1050, 1100]


def test_an_old_job_overtakes_a_large_one_when_the_factors_are_computed_again() -> None:
    """Points: the 1-GPU job 1000 x age + 25, the 4-GPU job 1000 x age + 100; both age, and at 100 s only one stops."""
    case = tenants_instance([0, 0, 60], [4, 1, 4], [600, 50, 50], limits=[600.0, 600.0, 600.0])
    spec = "slurm:backfill=none,gpu_weight=100,age_weight=1000,calc_period_s=60"
    assert finish(case, f"{spec},max_age_s=1000000") == [600, 700, 650]
    assert finish(case, f"{spec},max_age_s=700") == [600, 650, 700]  # at 600 s: 857 + 25 to 771 + 100


@pytest.mark.parametrize("seed", range(4))
def test_the_usage_of_tenants_is_that_of_the_event_log(seed: int) -> None:
    case = crowded(seed, classes=True)
    scheduler = asked(
        make_scheduler("slurm-multifactor:calc_period_s=7,decay_half_life_s=50,preempt=class,bf_interval_s=0")
    )
    simulation = Simulation(case)
    simulation.run(scheduler)
    tree, of_job = case.tenancy
    wanted = decayed_usage(case, simulation.log(), of_job, len(tree.names), simulation.now_s, 7.0, decay(7.0, 50.0))
    assert wanted.max() > 0
    # the last event decides nothing, so the scheduler has seen the time before it
    seen = scheduler._own.memory["time_s"]
    if seen // 7 == simulation.now_s // 7:
        assert scheduler._own.usage == pytest.approx(wanted, rel=1e-12)
    else:
        wanted = decayed_usage(case, simulation.log(), of_job, len(tree.names), seen, 7.0, decay(7.0, 50.0))
        assert scheduler._own.usage == pytest.approx(wanted, rel=1e-12)


# --- backfill


@pytest.mark.parametrize(
    ("backfill", "starts"),
    [
        ("conservative", [0, 60, 120, 150, 0, 0]),
        ("easy", [0, 60, 150, 0, 180, 0]),
        ("none", [0, 60, 120, 150, 150, 150]),
    ],
)
def test_five_jobs_behind_two_busy_nodes_by_hand(backfill: str, starts: list[float]) -> None:
    """4 nodes, 2 busy to 60 min; then A 3 nodes 60 min, B 4 30, C 1 150, D 1 120, E 1 60."""
    minutes = [60, 60, 30, 150, 120, 60]
    case = tenants_instance([0] * 6, [2, 3, 4, 1, 1, 1], [60.0 * m for m in minutes], "4x1")
    for scheduler in (make_scheduler("slurm", backfill=backfill), asked(make_scheduler("slurm", backfill=backfill))):
        times = job_times(case, play(case, scheduler))
        assert (times["first_start_s"] / 60).tolist() == starts


def test_a_cycle_looks_at_so_many_jobs_and_starts_so_many() -> None:
    """A holds 3 of 4 GPUs; B needs 4; of three short jobs of 1 GPU, the limits of the cycle let fewer start at 0."""
    case = tenants_instance([0] * 5, [3, 4, 1, 1, 1], [100, 100, 10, 10, 10], "1x4", ["a", "a", "b", "b", "b"])
    spec = "slurm:bf_interval_s=0,bf_resolution_s=1"
    assert finish(case, spec) == [100, 200, 10, 20, 30]
    assert finish(case, f"{spec},bf_max_job_test=1") == [100, 200, 210, 210, 210]
    assert finish(case, f"{spec},bf_max_job_user=1") == [100, 200, 10, 20, 30]
    assert finish(case, f"{spec},bf_max_job_start=1") == [100, 200, 10, 20, 30]
    wide = tenants_instance([0] * 5, [2, 4, 1, 1, 1], [100, 100, 10, 10, 10], "1x4", ["a", "a", "b", "b", "b"])
    assert finish(wide, spec) == [100, 200, 10, 10, 20]
    assert finish(wide, f"{spec},bf_max_job_user=1") == [100, 200, 10, 20, 30]
    assert finish(wide, f"{spec},bf_max_job_start=1") == [100, 200, 10, 20, 30]


def test_cycles_are_an_interval_apart() -> None:
    """Jobs of 1 GPU arrive at 0 and at 5 behind a job that needs 4; the second one waits for the cycle at 30 s."""
    case = tenants_instance([0, 0, 0, 5], [2, 4, 1, 1], [100, 100, 10, 10])
    assert finish(case, "slurm:bf_resolution_s=1") == [100, 200, 10, 40]
    assert finish(case, "slurm:bf_resolution_s=1,bf_interval_s=0") == [100, 200, 10, 15]


def test_ends_are_rounded_up_to_slots() -> None:
    """A ends at 61 s: with slots of 60 s, B is planned for 120 s, so that a job of 100 s may start before it."""
    case = tenants_instance([0, 0, 0], [3, 4, 1], [61, 100, 100])
    assert finish(case, "slurm:bf_resolution_s=60") == [61, 200, 100]
    assert finish(case, "slurm:bf_resolution_s=1") == [61, 161, 261]


def test_a_job_without_a_limit_has_the_default_one() -> None:
    case = tenants_instance([0, 0, 0], [3, 4, 1], [100, 100, 50], limits=[100, 100, np.nan])
    assert finish(case, "slurm:bf_resolution_s=1,default_limit_s=100") == [100, 200, 50]
    assert finish(case, "slurm:bf_resolution_s=1,default_limit_s=101") == [100, 200, 250]
    assert finish(case, "slurm:bf_resolution_s=1,limits=oracle") == [100, 200, 50]


def test_jobs_of_low_priority_have_no_plan() -> None:
    """C runs into the time of B, which only a plan of B prevents; B has 100 x 4 / 4 points."""
    case = tenants_instance([0, 1, 1], [3, 4, 1], [100, 100, 150])
    spec = "slurm:gpu_weight=100,bf_resolution_s=1,bf_min_prio_reserve"
    assert finish(case, f"{spec}=100") == [100, 200, 350]
    assert finish(case, f"{spec}=101") == [100, 251, 151]


def test_cycles_that_end_early_are_those_that_go_through_the_queue() -> None:
    assert slurm_whole_cycles.logs() == plain_python_digests("slurm_whole_cycles")


def first_plans(case: Instance, spec: str) -> tuple[np.ndarray, np.ndarray]:
    """Play; return the earliest start that any cycle planned for each job, and its start."""
    scheduler, simulation = asked(make_scheduler(spec)), Simulation(case)
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    least = np.full(len(case.workload), np.inf)
    while simulation.advance() is Outcome.DECIDE:
        for decision in scheduler.decide(view):
            assert simulation.apply(decision) == ""
        least = np.minimum(least, scheduler._own.planned_s)
    return least, job_times(case, simulation.log())["first_start_s"]


@settings(max_examples=100)
@given(st.integers(0, 10**6))
def test_conservative_backfill_never_delays_a_plan_if_limits_are_true(seed: int) -> None:
    planned, started = first_plans(crowded(seed), EXACT)
    assert np.isfinite(planned).any()
    assert (started <= planned).all()


@settings(max_examples=100)
@given(
    st.integers(0, 10**6), st.sampled_from([1.0, 3.0]), st.sampled_from([1.0, 7.0, 60.0]), st.sampled_from([0.0, 30.0])
)
def test_easy_never_delays_the_first_job_if_limits_hold(
    seed: int, slack: float, slot_s: float, interval_s: float
) -> None:
    """The first job in the queue keeps its plan, whatever starts before it; limits are at least the run times."""
    case = crowded(seed, slack=slack)
    scheduler = asked(make_scheduler(EXACT, backfill="easy", bf_resolution_s=slot_s, bf_interval_s=interval_s))
    simulation = Simulation(case)
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    promised: dict[int, float] = {}
    while simulation.advance() is Outcome.DECIDE:
        for decision in scheduler.decide(view):
            simulation.apply(decision)
        first = int(view.waiting[0]) if len(view.waiting) else -1
        planned_s = scheduler._own.planned_s[first]
        if first >= 0 and scheduler._own.memory["cycle_s"] == view.now_s and np.isfinite(planned_s):
            promised.setdefault(first, float(planned_s))  # a cycle of this moment has planned it as the first job
    started = job_times(case, simulation.log())["first_start_s"]
    assert all(started[row] <= latest for row, latest in promised.items())


# --- tenants and preemption


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(3, 7), st.integers(1, 4), st.sampled_from(["off", "class"]))
def test_limits_of_tenants_hold_at_all_times(seed: int, most: int, jobs: int, preempt: str) -> None:
    """Subtree x = a + b holds at most ``most`` GPUs for ``jobs`` jobs, a at most 3 for 2."""
    rng = np.random.default_rng(seed)
    names, gangs, classes = rng.choice(["a", "b", "c"], 30), rng.integers(1, 4, 30), rng.integers(0, 3, 30)
    tree = (Tenant("x", most=most, jobs=jobs), Tenant("a", "x", most=3, jobs=2), Tenant("b", "x"), Tenant("c"))
    duration = rng.integers(1, 60, 30).astype(float).tolist()
    arrival = np.cumsum(rng.integers(0, 12, 30)).astype(float).tolist()
    case = tenants_instance(
        arrival, gangs.tolist(), duration, "2x4", names.tolist(), classes.astype(float).tolist(), tree=tree
    )
    log = play(case, f"slurm-multifactor:bf_interval_s=0,preempt={preempt}")
    held, runs = dict.fromkeys("abc", 0), dict.fromkeys("abc", 0)
    for event in log.events:
        tenant = str(names[event["job"]])
        change = int(event["kind"] in (START, RESUME)) - int(event["kind"] in (RELEASE, COMPLETE))
        held[tenant] += change * int(gangs[event["job"]])
        runs[tenant] += change
        assert held["a"] <= 3
        assert runs["a"] <= 2
        assert held["a"] + held["b"] <= most
        assert runs["a"] + runs["b"] <= jobs
    assert (log.events["kind"] == COMPLETE).sum() == 30


def test_a_tenant_runs_so_many_jobs_at_a_time_and_blocks_no_others() -> None:
    case = tenants_instance(
        [0, 0, 0, 0], [1, 1, 1, 1], [10, 10, 10, 10], names=["a", "a", "a", "b"],
        tree=(Tenant("a", jobs=2), Tenant("b")),
    )  # fmt: skip
    assert finish(case, "slurm:backfill=none") == [10, 10, 20, 10]
    assert finish(case, "slurm:queue_depth=1") == [10, 10, 20, 10]  # by backfill, which passes over the third job
    with pytest.raises(ScenarioError, match="tenant 'a': jobs is 0: give a number of jobs from 1 to 2"):
        Tenant("a", jobs=0)


def test_a_job_over_the_limit_of_its_tenant_blocks_no_others() -> None:
    case = tenants_instance(
        [0, 0, 0], [2, 1, 2], [10, 10, 10], names=["a", "a", "b"], tree=(Tenant("a", most=2), Tenant("b"))
    )
    assert finish(case, "slurm:backfill=none") == [10, 20, 10]


def test_a_higher_class_preempts_the_lowest_and_no_more_than_it_needs() -> None:
    """Four GPUs: classes 1, 0, 0 hold 2, 1 and 1; at 10 s a job of class 2 needs 2 GPUs."""
    case = tenants_instance([0, 0, 5, 10], [2, 1, 1, 2], [100, 100, 100, 20], classes=[1.0, 0, 0, 2])
    assert finish(case, "slurm:preempt=class") == [100, 120, 125, 30]
    assert finish(case, "slurm") == [100, 100, 105, 120]
    one = tenants_instance([0, 0, 5, 10], [2, 1, 1, 1], [100, 100, 100, 20], classes=[1.0, 0, 0, 2])
    assert finish(one, "slurm:preempt=class") == [100, 120, 105, 30]
    assert finish(one, "slurm:preempt=class,youngest_first=true") == [100, 100, 125, 30]
    assert finish(one, "slurm:preempt=class,preempt_exempt_s=8") == [100, 120, 105, 30]
    equal = tenants_instance([0, 10], [4, 4], [100, 20], classes=[1.0, 1])
    assert finish(equal, "slurm:preempt=class") == [100, 120]


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.sampled_from([0.0, 13.0]))
def test_only_lower_classes_are_preempted(seed: int, checkpoint_s: float) -> None:
    case = crowded(seed, classes=True)
    case = Instance(case.cluster, case.workload, case.network, Semantics(checkpoint_s=checkpoint_s, restore_s=5.0))
    log = play(case, "slurm:preempt=class,bf_interval_s=0")
    classes = np.array(case.workload.attributes[PRIORITY], float)
    for event in log.events[log.events["kind"] == PREEMPT]:
        waits = job_times(case, log)["arrival_s"] <= event["time_s"]
        assert classes[event["job"]] < classes[waits].max()
    assert preemptions(play(case, "slurm")) == 0


# --- equal runs, bad parameters

SPECS = (
    "slurm", "slurm-multifactor", "slurm:backfill=easy,bf_interval_s=0", "slurm-multifactor:backfill=none",
    "slurm-multifactor:fair_share=classic,preempt=class,calc_period_s=20", "slurm:limits=oracle,placement=consolidate",
    "slurm-multifactor:preempt=class,youngest_first=true,bf_interval_s=0", "slurm-multifactor:placement=random",
)  # fmt: skip


def in_partitions(case: Instance) -> Instance:
    """Let the jobs name one or two of three overlapping partitions."""
    names = ("all", "first,all", "all,second")
    told = np.array([names[row % 3] for row in range(len(case.workload))])
    parts = (Partition("all"), Partition("first", "0"), Partition("second", "1", tier=2))
    workload = case.workload.unchecked_replace(attributes={**case.workload.attributes, "partition": told})
    return Instance(
        case.cluster, workload, case.network, case.semantics, tenants=case.tenants, partitions=Partitions(parts)
    )


def cases() -> list[Instance]:
    """Free preemption, several partitions, checkpoints, rounds, GPU types and many events."""
    classes = np.arange(40) % 3
    random = [
        random_instance(1, 40, checkpoint_s=20.0, restore_s=35.0),
        random_instance(2, 40, round_s=60.0),
        random_instance(3, 40, Cluster.parse("2x4@V100,2x4@K80")),
    ]
    return [
        crowded(0, 60, classes=True, slack=3.0),
        in_partitions(crowded(1, 40, classes=True, slack=2.0)),
        *(
            Instance(
                case.cluster,
                case.workload.unchecked_replace(
                    attributes={PRIORITY: classes.astype(float), TENANT: np.array(["a", "b", "c"])[classes]}
                ),
                case.network,
                case.semantics,
            )
            for case in random
        ),
    ]


def with_qos(case: Instance) -> Instance:
    """Let the jobs name one of two QOS or none, and limit what runs of them."""
    told = np.array(["low", "high", "low", ""])[np.arange(len(case.workload)) % 4]
    workload = case.workload.unchecked_replace(attributes={**case.workload.attributes, "qos": told})
    listed = Qos("low", most=8, jobs_per_user=2), Qos("high", jobs=3, preempts=("low",))
    return Instance(case.cluster, workload, case.network, case.semantics, tenants=Tenants(qos=listed))


def runs() -> list[tuple[Instance, str]]:
    by_list = "slurm-multifactor:preempt=qos,bf_interval_s=0"
    return [(case, spec) for spec in SPECS for case in cases()] + [(with_qos(crowded(4, 40)), by_list)]


def test_the_compiled_loop_and_decide_give_equal_logs() -> None:
    for case, spec in runs():
        play_both(case, spec)


def test_many_jobs_fill_the_log_and_stops_change_nothing() -> None:
    case = get_scenario("philly-64-v1").instance(200_000)
    simulation = Simulation(case)
    player = make_scheduler("slurm-multifactor").player(simulation)
    assert player is not None
    for time_s in np.unique(case.workload.jobs["arrival_s"])[5:60:7]:
        assert player.play(float(time_s)) is Outcome.DECIDE
    assert player.play() is Outcome.DONE
    assert simulation.log().digest() == simulate(case, asked(make_scheduler("slurm-multifactor"))).digest()


@pytest.mark.parametrize(("classes", "message"), [(["x", "y"], "give numbers"), ([1.0, -2.0], "job 1: .* is -2.0")])
def test_bad_priority_classes_are_named(classes: list[float], message: str) -> None:
    with pytest.raises(GpuschedError, match=message):
        simulate(tenants_instance([0, 0], [1, 1], [1, 1], classes=classes), make_scheduler("slurm"))


def test_unit_jobs_play_without_tenants() -> None:
    assert finish(unit_instance([0, 0], [4, 4], [10, 10]), "slurm-multifactor:limits=oracle") == [10, 20]
