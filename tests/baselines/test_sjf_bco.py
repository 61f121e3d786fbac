"""SJF-BCO and its rivals: worked examples, the search, and brute force on tiny instances."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from bco_reference import rehearse
from helpers import play, play_both, preemptions, random_instance, small_scenario, unit_instance
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from makespan_reference import Gangs, least_makespan_s

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.bco import search
from gpusched_env.baselines.bco.kernels import Book, sum_of
from gpusched_env.baselines.bco.rehearsal import NoPlaceError, Rehearser
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import START, EventLog
from gpusched_env.metrics import job_times, summarise
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster, NodeGroup
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.outages import OUTAGE_DTYPE, Outages
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Simulation, simulate

READINGS = ("idle", "queue")
SMALL = Cluster([NodeGroup(1, 2), NodeGroup(1, 4)])  # GPUs 0, 1 and 2 to 5


def example() -> Instance:
    """Jobs a to d; durations equal charges; no contention."""
    return unit_instance([0] * 4, [1, 1, 2, 4], [10, 20, 15, 30], SMALL)


def schedule(log: EventLog) -> dict[int, tuple[float, tuple[int, ...]]]:
    """Start and GPUs of each job."""
    starts = np.flatnonzero(log.events["kind"] == START)
    return {
        int(log.events["job"][i]): (float(log.events["time_s"][i]), tuple(sorted(log.gang(i).tolist()))) for i in starts
    }


def makespan(instance: Instance, spec: str) -> float:
    return summarise(instance, play(instance, spec))["makespan_s"]


def crashing() -> Instance:
    """Machines that go down, one for long, and jobs that fail by themselves."""
    jobs = random_instance(1, 12, Cluster.parse("4x4"))
    fails = {"fails_after_s": np.where(np.arange(12) % 3 == 0, "60|90", "")}
    workload = dataclasses.replace(jobs.workload, attributes=fails)
    instance = Instance(jobs.cluster, workload, semantics=Semantics(detection_s=30.0, checkpoint_interval_s=60.0))
    rows = [(node, 170.0 * at, 170.0 * at + 400.0, 0) for at in range(12) for node in (at % 3,)]
    instance.outages = Outages.merged(np.array([*rows, (3, 500.0, 9e3, 0)], OUTAGE_DTYPE))
    return instance


FIRST_THREE = {0: (0.0, (0,)), 1: (0.0, (1,)), 2: (0.0, (2, 3))}


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize(
    ("parameters", "last"),
    [
        ("kappa=1,lambda=1", (2, 3, 4, 5)),  # LBSGF takes the server with the least mean charge
        ("kappa=1,lambda=2", (0, 2, 4, 5)),  # over both servers: the least charged GPUs
        ("kappa=4", (0, 2, 4, 5)),
    ],
)
def test_the_worked_example(reading: str, parameters: str, last: tuple[int, ...]) -> None:
    log = play(example(), f"sjf-bco:theta=60,semantics={reading},{parameters}")
    assert schedule(log) == {**FIRST_THREE, 3: (15.0, last)}
    assert job_times(example(), log)["finish_s"].max() == 45.0


@pytest.mark.parametrize("reading", READINGS)
def test_the_error_for_a_small_theta_names_the_scheduler(reading: str) -> None:
    for name in ("bco-ls", "bco-ff", "sjf-bco:kappa=1"):
        spec = f"{name}{',' if ':' in name else ':'}theta=1,semantics={reading}"
        with pytest.raises(NoPlaceError, match=rf"^{name.partition(':')[0]}: theta = 1 s leaves no place for a gang"):
            simulate(example(), make_scheduler(spec))


@pytest.mark.parametrize("reading", READINGS)
def test_a_theta_that_leaves_the_last_job_no_place_is_an_error(reading: str) -> None:
    for theta in (25, 40, 44):
        with pytest.raises(NoPlaceError, match=rf"theta = {theta} s leaves"):
            simulate(example(), make_scheduler(f"sjf-bco:theta={theta},semantics={reading}"))
        with pytest.raises(NoPlaceError):
            simulate(example(), make_scheduler(f"sjf-bco:theta={theta},kappa=1,semantics={reading}"))
        with pytest.raises(NoPlaceError, match="or ends after horizon_s = 1000 s"):
            simulate(example(), make_scheduler(f"sjf-bco:theta={theta},horizon_s=1000,semantics={reading}"))
    assert makespan(example(), f"sjf-bco:theta=45,semantics={reading}") == 45.0
    assert makespan(example(), f"sjf-bco:horizon_s=10,semantics={reading}") == 45.0  # the best without a limit


def test_the_bisection_tries_these_thetas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Theta = 25 fails, although its partial makespan is smaller, since not all gangs are placed.
    45 is found at theta = 50.
    """
    tried: list[float] = []
    original = search.try_all

    def spy(view, make, theta_s, sizes, best):
        tried.append(theta_s)
        return original(view, make, theta_s, sizes, best)

    monkeypatch.setattr(search, "try_all", spy)
    assert makespan(example(), "sjf-bco:theta=bisect,horizon_s=100") == 45.0
    assert tried == [50, 25, 37, 43, 46, 48, 49]
    assert makespan(example(), "sjf-bco") == 45.0


def test_the_two_readings() -> None:
    instance = unit_instance([0] * 3, [1] * 3, [10] * 3, "2x2")
    idle = play(instance, "bco-ff:theta=30")
    assert schedule(idle) == {0: (0.0, (0,)), 1: (0.0, (1,)), 2: (0.0, (2,))}
    queue = play(instance, "bco-ff:theta=30,semantics=queue")
    assert schedule(queue) == {0: (0.0, (0,)), 1: (10.0, (0,)), 2: (20.0, (0,))}


def test_in_a_queue_gangs_wait_for_each_other() -> None:
    """Two GPUs with queues a, c and b, c:
    c waits for the later GPU, and d waits behind c, although its GPU is idle before.
    """
    instance = unit_instance([0] * 4, [1, 1, 2, 1], [10, 4, 5, 1], "1x2")
    log = play(instance, "bco-ls:theta=100,semantics=queue")
    assert {job: start for job, (start, _) in schedule(log).items()} == {0: 0.0, 1: 0.0, 2: 10.0, 3: 15.0}
    assert schedule(log)[3][1] == (1,)


def test_ties_in_charge_go_to_the_lowest_gpu() -> None:
    instance = unit_instance([0] * 3, [2, 2, 3], [5, 5, 1], "3x2")
    log = play(instance, "sjf-bco:kappa=2,theta=99,semantics=queue,order=trace")
    assert schedule(log) == {0: (0.0, (0, 1)), 1: (0.0, (2, 3)), 2: (5.0, (0, 4, 5))}


@pytest.mark.parametrize("reading", READINGS)
def test_theta_may_be_passed_by_rounding_errors_only(reading: str) -> None:
    spec = f"bco-ls:theta=1,semantics={reading}"
    play(unit_instance([0], [6], [1.0 + 5e-10], "3x2"), spec)
    with pytest.raises(NoPlaceError):
        play(unit_instance([0], [6], [1.0 + 2e-9], "3x2"), spec)


def test_kappa_separates_small_from_large_gangs() -> None:
    """Charges 10, 1 and 4, 0: a small gang of two takes the two least charged GPUs; a large one waits for the server of
    4.

    With "lt", kappa = 2 makes a gang of two large; it needs kappa = 3 to be small.
    """
    instance = unit_instance([0] * 4, [1, 1, 1, 2], [10, 1, 4, 5], "2x2")
    small, large = (1.0, (1, 3)), (4.0, (2, 3))
    expected = {"kappa=0": large, "kappa=1": large, "kappa=2": small, "kappa=3": small}
    expected |= {"kappa=2,kappa_rule=lt": large, "kappa=3,kappa_rule=lt": small}
    for spec, place in expected.items():
        assert schedule(play(instance, f"sjf-bco:theta=99,{spec}"))[3] == place, spec


# --- invariants


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["sjf-bco", "bco-ls", "bco-ff", "bco-rand"]), st.sampled_from(READINGS))
def test_gangs_never_move_and_the_same_seed_gives_the_same_schedule(seed: int, name: str, reading: str) -> None:
    instance = random_instance(seed, 12)
    spec = f"{name}:semantics={reading},seed={seed}"
    log = play(instance, spec)  # play validates capacity and whole gangs at every time
    assert preemptions(log) == 0
    assert log.digest() == play(instance, spec).digest()


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from(["sjf-bco:kappa=2", "bco-ls", "bco-ff"]), st.sampled_from(READINGS))
def test_no_gpu_is_charged_beyond_theta(seed: int, spec: str, reading: str) -> None:
    rng = np.random.default_rng(seed)
    gangs, seconds = rng.integers(1, 7, 10), rng.integers(1, 50, 10).astype(float)
    instance = unit_instance([0] * 10, gangs.tolist(), seconds.tolist(), SMALL)
    theta = float(1.2 * gangs @ seconds / 6)
    try:
        log = play(instance, f"{spec}{',' if ':' in spec else ':'}theta={theta},semantics={reading}")
    except NoPlaceError:
        reject()  # hypothesis fails where it has to reject most instances
    charged = np.zeros(6)
    for job, (_, gpus) in schedule(log).items():
        charged[list(gpus)] += seconds[job]
    assert charged.max() <= theta + 1e-9


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(READINGS))
def test_fa_ffp_for_all_gangs_equals_ls_and_lbsgf_over_all_servers(seed: int, reading: str) -> None:
    rng = np.random.default_rng(seed)
    instance = unit_instance([0] * 12, rng.integers(1, 7, 12).tolist(), rng.integers(1, 50, 12).tolist(), SMALL)
    common = f"theta=1e9,semantics={reading}"
    all_small, ls, all_large = (
        play(instance, f"{spec},{common}").digest()
        for spec in ("sjf-bco:kappa=6", "bco-ls:order=smallest", "sjf-bco:kappa=0,lambda=100")
    )
    assert all_small == ls == all_large


@pytest.mark.parametrize("reading", READINGS)
def test_the_run_follows_the_best_rehearsal(reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the best rehearsal is the makespan of the run, although contention changes every end."""
    found: list[float] = []
    original = search.by_grid

    def spy(*arguments):
        found.append(original(*arguments).end_s)
        return original(*arguments)

    monkeypatch.setattr("gpusched_env.baselines.bco.scheduler.by_grid", spy)
    instance = contending(3, 30, (4, 8, 4, 8))
    end = makespan(instance, f"sjf-bco:semantics={reading}")
    assert found == [end]


@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("spec", ["sjf-bco:", "bco-ff:", "sjf-bco:theta=bisect,lambda=2,horizon_s=900,order=trace,"])
def test_rehearsals_equal_those_of_the_reference(spec: str, reading: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of every plan that the search tries, and whether theta was binding."""
    ends: list[float] = []

    class Both(Rehearser):
        def __init__(self, simulation: Simulation, book: Book) -> None:
            super().__init__(simulation, book)
            self._book = book

        def end_s(self, limit_s: float) -> float:
            expected = rehearse(self._simulation, self._book.copy(), limit_s)
            try:
                ends.append(super().end_s(limit_s))
            except NoPlaceError:
                ends.append(math.nan)
            assert str((ends[-1], bool(self._book.memory["binding"]))) == str(expected)
            if np.isnan(ends[-1]):
                raise NoPlaceError("no place")
            return ends[-1]

    monkeypatch.setattr("gpusched_env.baselines.bco.scheduler.Rehearser", Both)
    for instance in (
        contending(3, 14, (4, 8, 4)),
        random_instance(0, 10),
        random_instance(3, 10, Cluster.parse("2x4@V100,2x4@K80")),
        random_instance(5, 8, Cluster.parse("2x16")),
        crashing(),
    ):
        simulate(instance, make_scheduler(f"{spec}semantics={reading}"))
    assert np.isfinite(ends).any()


@pytest.mark.parametrize(
    "spec", ["sjf-bco", "bco-ls", "bco-rand", "bco-ls:semantics=queue", "bco-rand:semantics=queue"]
)
def test_the_player_gives_the_log_of_decide(spec: str) -> None:
    for instance in (random_instance(2, 14), random_instance(3, 14, round_s=60.0), contending(3, 12, (4, 8, 4))):
        play_both(instance, spec)


def test_charges_are_summed_in_the_order_of_numpy() -> None:
    add = getattr(sum_of, "py_func", sum_of)
    rng = np.random.default_rng(0)
    for gpus in (*range(1, 35), 64, 100, 129):
        charges = rng.exponential(1e4, 3 * gpus)
        begins = np.arange(3) * gpus
        assert [add(charges, i, i + gpus) for i in begins] == np.add.reduceat(charges, begins).tolist()


# --- brute force


def contending(seed: int, jobs: int, sizes: tuple[int, ...]) -> Instance:
    """Gangs that arrive together and communicate much, under k-way contention, on one switch."""
    return instance_of(tiny(seed, jobs, sizes))


def tiny(seed: int, jobs: int, sizes: tuple[int, ...]) -> Gangs:
    rng = np.random.default_rng(seed)
    gangs = rng.integers(1, min(sum(sizes), 8) + 1, jobs)
    return Gangs(
        sizes,
        tuple(gangs.tolist()),
        tuple(rng.integers(5, 60, jobs).astype(float).tolist()),
        tuple(rng.uniform(0.5, 1.5, jobs).tolist()),
        tuple((2 * (gangs - 1) / gangs * rng.uniform(0.1, 2.0, jobs) * 1e9).tolist()),
        inside_Bps=20e9,
        between_Bps=1e9,
        xi1=float(rng.choice([0.5, 1.0])),
        alpha=0.2,
    )


def instance_of(problem: Gangs) -> Instance:
    gangs = np.array(problem.gangs)
    gradient = np.where(gangs > 1, np.array(problem.wire_bytes) * gangs / np.maximum(2 * (gangs - 1), 1), 1.0)
    rows = [
        dict(name=f"{i}", batch=1, gradient_bytes=gradient[i], memory_bytes=0, skew=0, overlap=1, compute_s=compute)
        for i, compute in enumerate(problem.compute_s)
    ]
    workload = Workload.from_columns(
        [0.0] * len(gangs), gangs, iterations=problem.iterations, profiles=Profiles.from_rows(rows),
        profile=range(len(gangs)),  # type: ignore[arg-type]
    )  # fmt: skip
    switch = TopologySpec(
        "single-switch", gpu_GBps=problem.inside_Bps / 1e9, nic_GBps=problem.between_Bps / 1e9, gpu_latency_s=0.0,
        nic_latency_s=0.0,
    )  # fmt: skip
    network = Network("topology", topology=switch, contention=Contention("kway", xi1=problem.xi1, alpha=problem.alpha))
    return Instance(Cluster([NodeGroup(1, size) for size in problem.sizes]), workload, network)


@settings(max_examples=40)
@given(
    st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([(1, 2), (2, 2), (2, 3)]), st.sampled_from(READINGS),
    st.sampled_from(["grid", "bisect"]),
)  # fmt: skip
def test_never_below_the_optimum_and_never_above_one_job_after_the_other(
    seed: int, jobs: int, sizes: tuple[int, ...], reading: str, theta: str
) -> None:
    problem = tiny(seed, jobs, sizes)
    instance = instance_of(problem)
    optimum = least_makespan_s(problem)
    found = makespan(instance, f"sjf-bco:semantics={reading},theta={theta}")
    largest_s = problem.bounds_s()[1] * problem.iterations
    assert optimum * (1 - 1e-9) <= found <= largest_s.sum() * (1 + 1e-9)
    for rival in ("bco-ls", "bco-ff", "bco-rand"):
        assert makespan(instance, f"{rival}:semantics={reading}") >= optimum * (1 - 1e-9)


def test_brute_force_finds_a_known_optimum() -> None:
    """Two gangs of two on two servers of two: each on one server, without contention."""
    problem = dataclasses.replace(
        tiny(0, 2, (2, 2)), gangs=(2, 2), wire_bytes=(1e9, 1e9), compute_s=(1.0, 1.0), iterations=(10.0, 20.0)
    )
    assert least_makespan_s(problem) == pytest.approx(20 * 1.05)
    alone = dataclasses.replace(problem, sizes=(1, 1), gangs=(2, 1), wire_bytes=(1e9, 0.0))
    assert least_makespan_s(alone) == pytest.approx(10 * 2.0 + 20)


# --- later arrivals, estimates, errors


def test_later_arrivals_are_planned_online_and_the_name_says_so() -> None:
    """At 5 s a job arrives that is smaller than the waiting one: it starts first, on the GPU that is free first."""
    instance = unit_instance([0, 0, 0, 5], [1, 1, 2, 1], [10, 20, 5, 1], "1x2")
    scheduler = make_scheduler("sjf-bco:order=smallest")
    log = simulate(instance, scheduler)
    assert schedule(log)[3] == (10.0, (0,))
    assert schedule(log)[2] == (20.0, (0, 1))
    assert scheduler.name == "sjf-bco-online"
    assert make_scheduler("sjf-bco").name == "sjf-bco"
    for name in ("bco-ff", "bco-ls", "bco-rand"):
        again = make_scheduler(name)
        simulate(unit_instance([0, 0], [1, 1], [1, 1]), again)
        assert again.name == name


def test_charges_of_jobs_that_have_started_are_kept() -> None:
    """GPU 0 ran a long job, GPU 1 a short one: a job that arrives when both are free takes GPU 1."""
    instance = unit_instance([0, 0, 50], [1, 1, 1], [30, 10, 1], "1x2")
    assert schedule(play(instance, "bco-ls"))[2] == (50.0, (1,))


def test_estimates_instead_of_run_times() -> None:
    """The least charged GPU follows from estimates: by them the first job is the shorter one."""
    instance = unit_instance([0, 0, 60], [1, 1, 1], [30, 10, 1], "1x2")
    instance.workload.jobs["estimate_s"][:] = [10, 200, 10]
    scheduler = make_scheduler("bco-ls:charge=estimate,theta=1000")
    assert not scheduler.clairvoyant
    assert schedule(play(instance, scheduler))[2] == (60.0, (0,))
    instance.workload.jobs["estimate_s"][1] = np.nan
    with pytest.raises(SchedulerError, match=r"bco-ls: job 1 has no estimate_s; use charge=profile"):
        simulate(instance, make_scheduler("bco-ls:charge=estimate"))


def test_clairvoyance_is_declared() -> None:
    known = {
        "sjf-bco": True,
        "sjf-bco:theta=50,kappa=1": True,
        "sjf-bco:theta=50,kappa=1,charge=estimate": False,
        "sjf-bco:theta=50,charge=estimate": True,  # kappa by rehearsal
        "bco-ff:charge=estimate": True,
        "bco-ff:charge=estimate,theta=50": False,
        "bco-rand": False,
    }
    assert {spec: make_scheduler(spec).clairvoyant for spec in known} == known


def test_random_gpus_depend_on_the_seed() -> None:
    instance = random_instance(4, 20)
    one, same, other = (play(instance, f"bco-rand:seed={seed}").digest() for seed in (1, 1, 2))
    assert one == same != other


def test_a_run_in_rounds_and_under_a_time_limit() -> None:
    assert np.isfinite(makespan(random_instance(3, 15, round_s=60.0), "sjf-bco"))
    cut = random_instance(3, 15, time_limit_s=300.0)
    log = play(cut, "sjf-bco")  # no plan ends in time: the one without a bound on charges is played
    assert (log.events["kind"] == START).any()


def test_philly_is_planned_online() -> None:
    instance = small_scenario(60).instance(200_000)
    assert makespan(instance, "sjf-bco") <= makespan(instance, "bco-rand")


def test_the_bound_of_theorem_5_does_not_hold_for_single_gpus() -> None:
    """Theorem 5 promises n_g phi u / l times the optimum: 1 here, as charges are run times and no gang has two GPUs.

    Three GPUs, jobs of 39.3, 42.8, 53.7 and 76.1 s. In this order, the shortest first, the last job follows the first:
    115.3 s. The optimum plays the first and the second on one GPU: 82.0 s.
    """
    problem = tiny(337, 4, (1, 2))
    run_s = problem.bounds_s()[1] * problem.iterations
    assert problem.gangs == (1, 1, 1, 1)
    assert np.sort(run_s).round(1).tolist() == [39.3, 42.8, 53.7, 76.1]
    assert least_makespan_s(problem) == pytest.approx(np.sort(run_s)[:2].sum())
    assert makespan(instance_of(problem), "sjf-bco") == pytest.approx(run_s.min() + run_s.max())
