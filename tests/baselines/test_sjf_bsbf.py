"""SJF-BSBF and SJF-FFS: worked examples, Theorem 1, properties of every log, and a plain Python reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from list_policies_decide import reference
from no_preempt_loop import play
from sharing_play import random_tables, tables_of, with_tables
from sjf_bsbf_reference import Reference, pair_means

from gpusched_env.baselines import make_scheduler
from gpusched_env.core.sharing.theorem import mean_in_sequence, mean_sharing
from gpusched_env.errors import GpuschedError
from gpusched_env.event_log import ARRIVAL, COMPLETE, PREEMPT, START, EventLog
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.sharing import Sharing, synthetic
from gpusched_env.simulator import simulate
from gpusched_env.traces.profile_tables import load_fitted

T_SEQ, T_CON = (getattr(f, "py_func", f) for f in (mean_in_sequence, mean_sharing))
XI = st.floats(1.0, 4.0)
LENGTH = st.floats(1.0, 1_000.0)
MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")


def shared(
    arrival: Sequence[float], gpus: Sequence[int], duration: Sequence[float], cluster: str = "1x4",
    xi: float | None = 1.5, limit: int = 2,
) -> Instance:  # fmt: skip
    """An instance with sharing and the same durations on every placement; preemption is free."""
    rules = Semantics(checkpoint_s=0.0, restore_s=0.0)
    workload = Workload.from_columns(arrival, gpus, duration)
    sharing = None if xi is None else Sharing(limit, xi)
    return Instance(Cluster.parse(cluster), workload, Network("none"), rules, sharing)


def models_instance(seed: int, jobs: int = 30, cluster: str = "4x4@T4", half: bool = True) -> Instance:
    """Jobs of the six models with sub-batches and memory, and a random xi for each ordered pair."""
    rng, table = np.random.default_rng(seed), load_fitted("bsbf")
    gangs = rng.integers(1, 9, jobs)
    names = [MODELS[k] for k in rng.integers(0, len(MODELS), jobs)]
    largest = np.array([table.fits["T4"][name].largest_batch for name in names])
    batches = largest // (2 if half else 1) * gangs
    profiles, rows = table.for_jobs(names, batches, gangs)
    workload = Workload.from_columns(
        np.cumsum(rng.exponential(60.0, jobs)), gangs, rng.lognormal(6.0, 1.2, jobs), profiles=profiles, profile=rows
    )
    return Instance(Cluster.parse(cluster), workload, Network("none"), None, Sharing(2, synthetic(seed)))


def ends(instance: Instance, spec: str) -> list[float]:
    log = simulate(instance, make_scheduler(spec))
    return job_times(instance, log)["finish_s"].tolist()


def holders(instance: Instance, log: EventLog) -> Iterator[tuple[int, list[set[int]]]]:
    """Each start, and the jobs on each GPU just before it."""
    held: list[set[int]] = [set() for _ in range(instance.cluster.gpus)]
    for number, event in enumerate(log.events):
        if event["kind"] == START:
            yield number, held
            for gpu in log.gang(number).tolist():
                held[gpu].add(int(event["job"]))
        elif event["kind"] == COMPLETE:
            for jobs in held:
                jobs.discard(int(event["job"]))


def check_rules(instance: Instance, log: EventLog) -> None:
    """Check: at most two jobs on a GPU, no preemption, sharing only if free GPUs are too few, times that add up."""
    validate(instance, log)
    for number, held in holders(instance, log):
        gang = log.gang(number).tolist()
        assert max(len(held[gpu]) for gpu in gang) < 2
        if any(held[gpu] for gpu in gang):
            assert sum(not jobs for jobs in held) < len(gang)
    assert not (log.events["kind"] == PREEMPT).any()
    times = job_times(instance, log)
    assert times["queueing_s"] + times["service_s"] == pytest.approx(times["jct_s"])
    assert (times["service_s"] >= instance.ideal_s * (1 - 1e-9)).all()


# --- worked examples, by hand

T4_SLOTS = ([0, 0, 10, 20], [2, 3, 4, 2], [100, 200, 30, 10], "1x6")


@pytest.mark.parametrize(
    ("jobs", "xi", "of_sjf", "of_bsbf", "of_ffs"),
    [
        (([0, 10], [4, 4], [100, 20]), 1.2, [100, 120], [104, 34], [104, 34]),
        (([0, 10], [4, 4], [100, 20]), 2.0, [100, 120], [120, 50], [120, 50]),
        (([0, 10], [4, 4], [100, 60]), 2.0, [100, 160], [100, 160], [160, 130]),
        (T4_SLOTS, 1.2, [100, 200, 230, 110], [106, 206, 46, 32], [106, 206, 46, 32]),
    ],
)
def test_worked_examples(
    jobs: tuple[Sequence[float], Sequence[int], Sequence[float]], xi: float, of_sjf: list[float],
    of_bsbf: list[float], of_ffs: list[float],
) -> None:  # fmt: skip
    instance = shared(*jobs, xi=xi)
    assert ends(instance, "sjf") == pytest.approx(of_sjf)
    assert ends(instance, "sjf-bsbf") == pytest.approx(of_bsbf)
    assert ends(instance, "sjf-ffs") == pytest.approx(of_ffs)


def test_gpus_of_the_fourth_example() -> None:
    log = simulate(shared(*T4_SLOTS, xi=1.2), make_scheduler("sjf-bsbf"))
    starts = np.flatnonzero(log.events["kind"] == START).tolist()
    gangs = {int(log.events["job"][number]): sorted(log.gang(number).tolist()) for number in starts}
    # C takes the free GPU, both GPUs of A (the better pair), then the first of B; D joins C on the first two free seats
    assert gangs[2] == [0, 1, 2, 5]
    assert len(gangs[3]) == 2
    assert set(gangs[3]) <= {3, 4, 5}


def test_a_smaller_sub_batch_makes_room() -> None:
    table = load_fitted("bsbf")
    profiles, rows = table.for_jobs(["bert", "imagenet"], [4, 200], [1, 1])
    running = float(table.fits["T4"]["bert"].throughput.iteration_s(1, 1, 4, 1))
    jobs = Workload.from_columns([0, 10], [1, 1], [1010 / running, 100], profiles=profiles, profile=rows)
    jobs.jobs["iterations"], jobs.jobs["duration_s"] = [1010 / running, 100], np.nan
    instance = Instance(Cluster.parse("1x1@T4"), jobs, Network("none"), None, Sharing(2, 1.2))
    log = simulate(instance, make_scheduler("sjf-bsbf"))
    times, steps = job_times(instance, log), log.events["sub_steps"][log.events["kind"] == START]
    # sub-batches of 200 and 100 do not fit beside half of the memory; 50 fits and is better than 25
    assert steps.tolist() == [1, 4]
    assert times["jct_s"][1] == pytest.approx(1.2 * 115.268)
    assert (times["finish_s"] - 10).mean() == pytest.approx(580.6876, abs=1e-4)
    whole = simulate(instance, make_scheduler("sjf-bsbf:sub_batch_search=false"))
    assert job_times(instance, whole)["queueing_s"][1] == pytest.approx(1000)


# --- Theorem 1


@given(left=LENGTH, new=LENGTH, xi_left=XI, xi_new=XI)
@settings(max_examples=40)
def test_the_best_time_to_join_is_now_or_when_the_other_ends(
    left: float, new: float, xi_left: float, xi_new: float
) -> None:
    means = [pair_means(left, new, xi_left, xi_new, delay) for delay in np.linspace(0.0, left, 401).tolist()]
    now, later = T_CON(left, new, xi_left, xi_new), T_SEQ(left, new)
    assert means[0] == pytest.approx(now, rel=1e-6)
    assert means[-1] == pytest.approx(later, rel=1e-6)
    assert min(means) >= min(now, later) * (1 - 1e-6)


@given(left=LENGTH, xi_left=XI, xi_new=XI)
@settings(max_examples=30)
def test_the_mean_jct_is_continuous_where_both_end_together(left: float, xi_left: float, xi_new: float) -> None:
    new = xi_left * left / xi_new
    assert T_CON(left, new * (1 + 1e-9), xi_left, xi_new) == pytest.approx(
        T_CON(left, new * (1 - 1e-9), xi_left, xi_new)
    )


@given(left=LENGTH, new=LENGTH, xi=st.floats(1.5, 4.0))
@settings(max_examples=30)
def test_pairs_of_equal_xi_share_if_the_running_job_is_long(left: float, new: float, xi: float) -> None:
    """For xi >= 1.5: if and only if L_A > 2 (xi - 1) L_B; not checked near the tie."""
    margin = left / (2 * (xi - 1) * new)
    if abs(margin - 1) > 1e-6:
        instance = shared([0, 1], [4, 4], [left + 1, new], xi=xi)
        started = job_times(instance, simulate(instance, make_scheduler("sjf-bsbf")))["queueing_s"][1]
        assert (started == 0) == (margin > 1)


# --- properties of whole runs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["sjf-bsbf", "sjf-ffs"])
def test_runs_keep_the_rules_and_equal_the_reference(name: str, seed: int) -> None:
    instance = models_instance(seed)
    log = simulate(instance, make_scheduler(name))
    check_rules(instance, log)
    assert log.digest() == simulate(instance, Reference(instance, name == "sjf-bsbf")).digest()
    assert (log.events["sub_steps"] > 1).any() or seed  # at least one of them needs it because of memory


def test_no_jobs_share_if_each_fills_the_memory() -> None:
    instance = models_instance(0, half=False)
    logs = {
        name: simulate(instance, make_scheduler(f"{name}:sub_batch_search=false")) for name in ("sjf-bsbf", "sjf-ffs")
    }
    assert {log.digest() for log in logs.values()} == {simulate(instance, make_scheduler("sjf")).digest()}


@pytest.mark.parametrize("seed", range(3))
def test_without_interference_no_job_waits_while_enough_seats_are_free(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrival, gpus = np.cumsum(rng.exponential(20.0, 40)), rng.integers(1, 9, 40)
    instance = shared(arrival.tolist(), gpus.tolist(), rng.lognormal(4, 1, 40).tolist(), "4x4", 1.0)
    log = simulate(instance, make_scheduler("sjf-bsbf"))
    check_rules(instance, log)
    held: list[set[int]] = [set() for _ in range(instance.cluster.gpus)]
    waiting: set[int] = set()
    waited = 0
    for number, event in enumerate(log.events):
        job = int(event["job"])
        if event["kind"] == ARRIVAL:
            waiting.add(job)
        elif event["kind"] == START:
            waiting.remove(job)
            for gpu in log.gang(number).tolist():
                held[gpu].add(job)
        elif event["kind"] == COMPLETE:
            for jobs in held:
                jobs.discard(job)
        if number + 1 == len(log.events) or log.events["time_s"][number + 1] > event["time_s"]:
            seats = sum(len(jobs) < 2 for jobs in held)
            assert all(instance.workload.jobs["gpus"][job] > seats for job in waiting)
            waited += len(waiting)
    assert waited


@pytest.mark.parametrize("limit", [None, 1])
def test_without_sharing_it_is_sjf(limit: int | None) -> None:
    rng = np.random.default_rng(4)
    jobs = (
        np.cumsum(rng.exponential(9.0, 50)).tolist(),
        rng.integers(1, 9, 50).tolist(),
        rng.lognormal(4, 1, 50).tolist(),
    )
    instance = shared(*jobs, "4x4", None if limit is None else 1.5, limit or 2)
    sjf = simulate(instance, make_scheduler("sjf")).digest()
    for spec in ("sjf-bsbf", "sjf-ffs"):
        assert simulate(instance, make_scheduler(spec)).digest() == sjf
    by_arrival = simulate(instance, make_scheduler("sjf-bsbf:order=fifo,strict=true"))
    assert by_arrival.digest() == simulate(instance, make_scheduler("fifo")).digest()


@pytest.mark.parametrize("name", ["fifo", "sjf", "srtf", "tiresias:thresholds=600"])
def test_other_schedulers_do_not_share_gpus(name: str) -> None:
    instance = models_instance(1)
    log = simulate(instance, make_scheduler(name))
    validate(instance, log)
    assert np.isfinite(job_times(instance, log)["finish_s"]).all()
    if not (log.events["kind"] == PREEMPT).any():
        assert all(not held[gpu] for number, held in holders(instance, log) for gpu in log.gang(number).tolist())


# --- parameters


def test_rounds() -> None:
    rng = np.random.default_rng(0)
    instance = shared(rng.uniform(0, 600, 30).tolist(), [2] * 30, rng.lognormal(5, 1, 30).tolist(), "2x4", 1.2)
    log = simulate(instance, make_scheduler("sjf-bsbf:round_s=60"))
    starts = log.events["time_s"][log.events["kind"] == START]
    assert len(starts) == 30
    assert (starts % 60 == 0).all()


def gangs_by_placement(instance: Instance, placement: str, job: int) -> list[int]:
    log = simulate(instance, make_scheduler(f"sjf-bsbf:placement={placement}"))
    number = next(n for n, _ in holders(instance, log) if log.events["job"][n] == job)
    return sorted(log.gang(number).tolist())


def test_placements_of_the_authors_code() -> None:
    two_small = shared([0, 1], [1, 1], [100, 100], "2x4", 1.2)
    assert gangs_by_placement(two_small, "consolidate", 1) == [1]  # best fit
    assert gangs_by_placement(two_small, "bsbf", 1) == [4]  # the machine with the fewest gangs
    assert gangs_by_placement(two_small, "bsbfs", 1) == [1]  # the fewest free GPUs that hold it
    # GPUs 1 and 3 are free when the last job arrives: over two machines, or beside job 0 on one machine
    split = shared([0, 1, 2, 30], [1, 1, 1, 2], [100, 10, 100, 20], "2x2", 1.2)
    assert gangs_by_placement(split, "consolidate", 3) == [1, 3]
    assert gangs_by_placement(split, "bsbfs", 3) == [0, 1]


def test_first_fit_as_in_the_authors_code_shares_where_the_fewest_jobs_are() -> None:
    """Machine 0 has two jobs left, machine 1 has one: job 4 joins machine 1; by GPU id it would join machine 0."""
    full = shared([0, 0, 20, 20, 21], [2, 2, 1, 1, 1], [10, 100, 100, 100, 200], "2x2", 1.2)
    for placement, gpu in (("consolidate", 0), ("bsbf", 2), ("bsbfs", 2)):
        log = simulate(full, make_scheduler(f"sjf-ffs:placement={placement}"))
        number = next(n for n, _ in holders(full, log) if log.events["job"][n] == 4)
        assert log.gang(number).tolist() == [gpu], placement


@pytest.mark.parametrize("round_s", [0.0, 60.0])
@pytest.mark.parametrize("seed", range(12))
def test_first_fit_equals_the_no_preempt_loop_of_the_authors_code(seed: int, round_s: float) -> None:
    """For each run: starts, GPUs and ends of all jobs, with memory and a random xi for each ordered pair."""
    rng = np.random.default_rng(seed)
    nodes, per_node, jobs = [(4, 4), (3, 2), (2, 8), (8, 1)][seed % 4] + (40,)
    row = dict(batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=(1.0,))
    models = Profiles.from_rows([row | dict(name=name) for name in MODELS], ("V100",))
    gangs = rng.integers(1, nodes * per_node // 2 + 1, jobs)
    workload = Workload.from_columns(
        np.cumsum(rng.exponential(30.0, jobs)), gangs, rng.lognormal(5.0, 1.0, jobs), profiles=models,
        profile=rng.integers(0, len(MODELS), jobs),
    )  # fmt: skip
    cluster, rules = Cluster.parse(f"{nodes}x{per_node}"), Semantics(checkpoint_s=0.0, restore_s=0.0)
    instance = Instance(cluster, workload, Network("none"), rules, Sharing(2, 1.0))
    tables = tables_of(with_tables(instance, **random_tables(rng, instance, hard=False)))
    kinds = instance.job_class
    found = play(
        workload.jobs["arrival_s"], gangs, instance.ideal_s, nodes, per_node,
        tables.interference[:, :, 0][np.ix_(kinds, kinds)], tables.memory[kinds, 0, 0], round_s,
    )  # fmt: skip
    log = simulate(instance, make_scheduler(f"sjf-ffs:placement=bsbf,sub_batch_search=off,round_s={round_s}"))
    times = job_times(instance, log)
    assert times["first_start_s"] == pytest.approx(found.start_s, rel=1e-9)
    assert times["finish_s"] == pytest.approx(found.end_s, rel=1e-9)
    company = 0
    for number, held in holders(instance, log):
        gang = log.gang(number).tolist()
        assert sorted(gang) == sorted(found.gpus[log.events["job"][number]])
        company += any(held[gpu] for gpu in gang)
    assert company  # some of them share


def test_running_times_as_measured_favour_sharing() -> None:
    """A gang that already shares looks longer than it is, and sharing with a longer gang pays more."""
    instance = shared([0, 1, 40], [4, 2, 2], [100, 30, 45], xi=1.9)
    # at 40 s job 0 has 78.5 s left alone, below 2 (xi - 1) 45 = 81, but 149 s at its rate beside job 1
    assert queueing(instance, "solo")[2] > queueing(instance, "measured")[2] == 0


def queueing(instance: Instance, running_time: str) -> list[float]:
    log = simulate(instance, make_scheduler(f"sjf-bsbf:running_time={running_time}"))
    return job_times(instance, log)["queueing_s"].tolist()


def test_an_unknown_placement_of_the_view() -> None:
    from helpers import begin

    simulation = begin(shared([0], [1], [1]))
    view = simulation.view_for(make_scheduler("sjf-bsbf"))
    with pytest.raises(GpuschedError, match="unknown placement 'packed'"):
        list(view.shared_schedule(view.waiting, placement="packed"))  # type: ignore[attr-defined]


@pytest.mark.parametrize("spec", ["sjf-bsbf", "sjf-ffs", "sjf-bsbf:placement=bsbfs,running_time=measured"])
@pytest.mark.parametrize("half", [True, False])
def test_the_compiled_loop_gives_the_log_of_decide(spec: str, half: bool) -> None:
    """Models whose sub-batches and memory matter; other scenarios are in tests/baselines/test_compiled.py."""
    instance = models_instance(1, 20, half=half)
    assert simulate(instance, make_scheduler(spec)).digest() == simulate(instance, reference(spec)).digest()


def test_jobs_start_at_every_round_although_its_time_is_rounded() -> None:
    """Each job arrives 1 s after a multiple of 7.3 s and starts at the next one; 3 x 7.3 - 7.3 is not 2 x 7.3."""
    rounds = np.arange(30)
    instance = shared(rounds * 7.3 + 1.0, [1] * 30, [2.0] * 30)
    log = simulate(instance, make_scheduler("sjf-bsbf:round_s=7.3"))
    assert log.events["time_s"][log.events["kind"] == START].tolist() == ((rounds + 1) * 7.3).tolist()
