"""Dally (after the authors' simulator): worked examples, timers, and properties on random problems."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import asked, check_counts, linked_scenario, play, random_instance, simulate
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpusched_env.baselines import make_scheduler
from gpusched_env.baselines.dally.placing import ON_SLOT, REFUSED
from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.baselines.dally.state import MACHINE_WAITS, RACK_WAITS
from gpusched_env.baselines.dally.timers import TableTimers
from gpusched_env.core.waiting import waiting_rows
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import COMPLETE, LEASE_END, PREEMPT, RELEASE, RESUME, START
from gpusched_env.metrics import job_times, validate
from gpusched_env.network import Network
from gpusched_env.problem.cluster import MACHINE, NETWORK, RACK, Cluster
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import Outcome, Scheduler, Simulation, Start

Row = tuple[int, float, int, float]  # id, arrival [s], GPUs, ideal run time [s]


def problem(
    racks: int,
    machines: int,
    rows: list[Row],
    slowdown: tuple[float, ...] = (1, 2, 4),
    step: int = 60,
    cost_s: float = 0.0,
    iteration_s: float = 1.0,
    machine_gpus: int = 4,
) -> Instance:
    """4-GPU machines; an iteration takes one second on a machine, and ``slowdown`` seconds on other tiers."""
    unit = dict(name="VGG", batch=1, gradient_bytes=0.0, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=iteration_s)
    ids, arrival, gpus, ideal = zip(*rows, strict=True)
    workload = Workload.from_columns(
        arrival, gpus, iterations=ideal, ids=ids, profiles=Profiles.from_rows([unit], ("V100",))
    )
    network = Network("tiers", tier_slowdown=slowdown)
    rules = Semantics(checkpoint_s=cost_s, restore_s=cost_s, step_iterations=step)
    return Instance(Cluster.homogeneous(racks * machines, machine_gpus, machines), workload, network, rules)


def times(instance: Instance, scheduler: Scheduler) -> dict[int, tuple[float, float]]:
    """Start and end of each job [s], by id."""
    log = play(instance, scheduler)
    found = job_times(instance, log)
    ids = instance.workload.jobs["id"].tolist()
    return {i: (float(row["first_start_s"]), float(row["finish_s"])) for i, row in zip(ids, found, strict=True)}


def authors(rack_wait: float, nw_wait: float, **parameters: Any) -> Dally:
    return Dally(**({"preset": "authors", "tuner": "off", "rack_wait": rack_wait, "nw_wait": nw_wait} | parameters))


# --- worked examples of the authors' simulator: 4-GPU machines, L = 3,600 s, steps of 60 iterations of a second

FOUR_AND_ONE: list[Row] = [(k, 0.0, 3, 7200.0) for k in (1, 2, 3, 4)] + [(5, 10.0, 4, 600.0)]
TWO_AND_TWO: list[Row] = [(1, 0.0, 3, 7200.0), (2, 0.0, 3, 7200.0), (5, 10.0, 2, 600.0), (9, 1900.0, 8, 60.0)]


def test_a_new_job_is_first_when_leases_end() -> None:
    instance = problem(2, 2, FOUR_AND_ONE)
    found = times(instance, authors(1.0, 2.0))
    assert [found[k][1] for k in (1, 2, 3, 4)] == [7203.0, 7203.0, 7203.0, 7807.0]
    assert found[5] == (3603.0, 4203.0)
    accounts = job_times(instance, simulate(instance, authors(1.0, 2.0)))
    assert accounts["jct_s"].mean() == pytest.approx(6721.8)
    assert accounts["queueing_s"].mean() == pytest.approx(841.8)


def test_without_delay_the_network_is_taken_at_once() -> None:
    instance = problem(2, 2, FOUR_AND_ONE)
    found = times(instance, authors(0.0, 0.0))
    assert found[5] == (10.0, 2410.0)
    assert [found[k][1] for k in (1, 2, 3, 4)] == [7203.0] * 4
    assert np.mean([end - row[1] for row, (_, end) in zip(FOUR_AND_ONE, found.values(), strict=True)]) == 6242.4


def test_an_offer_is_refused_before_the_timer_expires_and_accepted_after_it() -> None:
    found = times(problem(1, 2, TWO_AND_TWO), authors(0.5, 2.0))
    assert found == {1: (0.0, 7331.0), 2: (0.0, 7331.0), 5: (1900.0, 3100.0), 9: (3603.0, 3723.0)}
    found = times(problem(1, 2, TWO_AND_TWO), authors(1.0, 2.0))
    assert found == {1: (0.0, 7203.0), 2: (0.0, 7805.0), 5: (3603.0, 4203.0), 9: (7808.0, 7928.0)}


def test_a_running_job_leaks_a_machine_in_the_published_code() -> None:
    rows: list[Row] = [(1, 0.0, 4, 7200.0), (2, 10.0, 4, 1200.0)]
    assert times(problem(1, 2, rows), authors(0.0, 0.0)) == {1: (0.0, 7204.0), 2: (10.0, 1210.0)}
    leaky = times(problem(1, 2, rows), authors(0.0, 0.0, preset="authors_published"))
    assert leaky == {1: (0.0, 8408.0), 2: (3604.0, 4804.0)}


@pytest.mark.parametrize(("slowdown", "left"), [((1, 200, 400), 0), ((1, 2, 4), 3)])
def test_the_look_ahead_at_the_end_of_a_lease_frees_gpus_won_in_its_last_step(
    slowdown: tuple[float, ...], left: int
) -> None:
    """At 3,590 s job 1 is granted a GPU of each machine;
    a step there takes 60 x 200 / 3 = 4,000 s, or 60 x 2 / 3 = 40 s.
    """
    rows: list[Row] = [*((k, 0.0, 3, 72000.0) for k in (1, 2, 3)), (4, 3590.0, 12, 600.0)]
    run = DelayRun(problem(1, 3, rows, slowdown), authors(0.5, 9.0, preset="authors_published"))
    run.play(3595.0)
    assert run.delay.tasks["leaked"].tolist() == [3, 0, 0, 0]
    run.play(3601.0)
    assert run.delay.tasks["leaked"].tolist() == [left, 0, 0, 0]
    assert (run.delay.leaker >= 0).sum() == left


def test_tiresias_of_the_authors_counts_service_at_the_end_of_a_step() -> None:
    """Both jobs are in their first step and have attained no service:
    the smaller id gets the third machine, not the smaller gang.
    """
    rows: list[Row] = [(1, 0.0, 4, 7200.0), (2, 0.0, 3, 7200.0)]
    rules: dict[str, Any] = {"preset": "authors_published", "policy": "tiresias", "priority": "gpu-time"}
    run = DelayRun(problem(1, 3, rows), Dally(**rules))
    run.play(30.0)
    assert run.delay.tasks["leaked"].tolist() == [4, 0]


def test_the_network_is_refused_until_two_leases_have_passed() -> None:
    rows: list[Row] = [(1, 0.0, 6, 36000.0), (2, 0.0, 6, 36000.0), (5, 10.0, 4, 7200.0)]
    instance = problem(2, 2, rows)
    log = simulate(instance, authors(1.0, 2.0))
    got = np.isin(log.events["kind"], [START, RESUME]) & (log.events["job"] == 2)
    assert log.events["time_s"][got][:2].tolist() == [3606.0, 14422.0]
    assert log.events["tier"][got][:2].tolist() == [MACHINE, NETWORK]
    found = times(instance, authors(1.0, 2.0))
    assert (found[1][1], found[2][1], found[5][1]) == (72108.0, 77518.0, 34248.0)


# --- the hand tuner


def tuned(machine: list[float], rack: list[float], hist: float = 24.0, **rules: Any) -> tuple[float, float]:
    """Timers [leases] of gangs of four after the given waits."""
    run = DelayRun(problem(2, 2, [(1, 0.0, 4, 600.0)]), Dally(preset="authors", hist=hist, **rules))
    for which, waits in ((MACHINE_WAITS, machine), (RACK_WAITS, rack)):
        run.delay.samples["wait"][0, which, : len(waits)] = waits
        run.delay.counts[0, which] = len(waits)
    run.tune_by_hand()
    rack_s, network_s = run.waits_s[4]
    return rack_s / 3600.0, network_s / 3600.0


@pytest.mark.parametrize(
    ("machine", "rack", "hist", "timers"),
    [
        ([1.0, 1.5, 3.2, 8.3], [2.0, 10.0, 30.0], 24, (10, 24)),
        ([], [], 24, (6, 12)),
        ([], [], 0, (0, 0)),
        ([], [], 5, (4, 5)),
        ([30.0], [30.0], 24, (20, 24)),
        ([9.2], [13.5], 24, (10, 14)),
    ],
)
def test_timers_follow_from_the_histories_of_waits(
    machine: list[float], rack: list[float], hist: float, timers: tuple[float, float]
) -> None:
    assert tuned(machine, rack, hist) == timers


@pytest.mark.parametrize(
    ("waits", "statistic"),
    [([0.0, 0.0, 3600.0, 7200.0], 8669.925), ([1.0, 1.5, 3.2, 8.3], 9.277543), ([2.0, 10.0, 30.0], 37.551362)],
)
def test_mean_plus_two_sigma(waits: list[float], statistic: float) -> None:
    wide = dict(floor_rack=0.0, floor_nw=0.0)
    rack, network = tuned(waits, waits, 1e6, cap_rack=1.0, **wide)
    assert rack == network == math.ceil(statistic)
    assert tuned(waits, waits, 1e6, cap_rack=1.0, k_sigma=0.0, **wide)[0] == math.ceil(np.mean(waits))
    assert np.mean(waits) + 2 * np.std(waits) == pytest.approx(statistic, rel=1e-6)


@pytest.mark.parametrize(("wait", "kept"), [(0.99, 0), (1.0, 1)])
def test_waits_shorter_than_a_lease_are_not_recorded(wait: float, kept: int) -> None:
    # Jobs 1 and 2 fill both machines until 3,600 s x wait; job 3 then gets a machine.
    long_s = wait * 3600.0
    rows: list[Row] = [(1, 0.0, 4, long_s), (2, 0.0, 4, long_s), (3, 0.0, 4, 60.0)]
    run = DelayRun(problem(1, 2, rows, step=0), Dally(preset="authors", ckpt_per_gpu_s=0.0))
    assert run.play() is Outcome.DONE
    machine, rack = run.history(4)
    assert machine["wait"].tolist() == [wait] * kept
    assert not len(rack)


# --- network sensitivity


def test_nw_is_the_time_weighted_mean_of_the_efficiency() -> None:
    # 3,600 s on a machine; then four gangs of three leave one GPU in each of four racks.
    rows: list[Row] = [(1, 0.0, 4, 18000.0), *((k, 3600.0, 3, 90000.0) for k in (2, 3, 4, 5))]
    run = DelayRun(problem(4, 1, rows), authors(0.0, 0.0))
    assert run.play(7201.0) is Outcome.DECIDE
    task = run.delay.tasks[0]
    assert (task["run_s"], task["left"]) == (7200.0, 4 * 13500.0)
    assert task["nw"] == pytest.approx(0.625, rel=1e-12)
    assert run.nw(np.array([0])) == pytest.approx([0.625], rel=1e-12)


TIE: list[Row] = [(0, 5.0, 1, 72.0), (1, 0.0, 1, 27.0), (2, 5.0, 1, 27.0)]  # the last number in iterations of 33.1 s


@pytest.mark.parametrize("kind", [Dally, lambda **given: asked(Dally(**given))], ids=["compiled", "asked"])
@pytest.mark.parametrize(
    ("rules", "end_s"),
    [
        ({"preset": "authors"}, 2681.1),
        ({"preset": "authors_published"}, 2681.1),
        ({"preset": "authors", "nw_key": "rounded"}, 2085.3),
    ],
)
def test_rounding_errors_of_nw_decide_in_the_authors_code(
    kind: Callable[..., Dally], rules: dict[str, Any], end_s: float
) -> None:
    """After a lease of 18 steps each, the Nw of jobs 0 and 1 is 1 in theory, and a bit smaller for job 0 in the code.

    So job 0 has the next lease. If Nw is rounded, job 1 has it, because it has been without GPUs for longer.
    """
    run_s = 0.0
    for _ in range(18):
        run_s += 33.1 / 1.0 * 1
    nw = [(1 - (n - 18) / n) / (run_s / (33.1 * n / 1)) for n in (72, 27)]
    assert nw[0] < nw[1] == pytest.approx(nw[0], rel=1e-15)
    instance = problem(1, 1, TIE, step=1, iteration_s=33.1, machine_gpus=1)
    found = times(instance, kind(lease_s=600.0, tuner="off", rack_wait=0.0, nw_wait=0.0, **rules))
    assert found[1] == (0.0, pytest.approx(end_s, abs=1e-6))


# --- the general class, without leases


def general(rack_s: float, network_s: float, **rules: Any) -> Dally:
    unit = 100.0
    given = dict(
        lease_s=unit, preemption="none", tuner="off", priority="arrival", rack_wait=rack_s / unit,
        nw_wait=network_s / unit,
    )  # fmt: skip
    return Dally(**(given | rules))


WAITER: list[Row] = [(1, 0.0, 3, 1000.0), (2, 0.0, 3, 1000.0), (3, 10.0, 2, 100.0)]


@pytest.mark.parametrize(
    ("waits", "start_and_end"),
    [((200.0, 400.0), (210.0, 360.0)), ((0.0, 0.0), (10.0, 160.0)), ((math.inf,) * 2, (1000.0, 1100.0))],
)
def test_a_rack_is_taken_when_its_timer_expires(waits: tuple[float, float], start_and_end: tuple[float, float]) -> None:
    assert times(problem(1, 2, WAITER, (1.0, 1.5, 3.0), 0), general(*waits))[3] == start_and_end


@pytest.mark.parametrize(
    ("waits", "start_and_end"),
    [
        ((200.0, 400.0), (410.0, 710.0)),
        ((0.0, 0.0), (10.0, 310.0)),
    ],
)
def test_timers_run_together(waits: tuple[float, float], start_and_end: tuple[float, float]) -> None:
    instance = problem(2, 1, WAITER, (1.0, 1.5, 3.0), 0)
    assert times(instance, general(*waits))[3] == start_and_end


@pytest.mark.parametrize(
    ("network_s", "start_and_end"), [(400.0, (500.0, 700.0)), (600.0, (610.0, 810.0)), (math.inf, (1000.0, 1100.0))]
)
def test_a_gang_larger_than_a_machine_waits_for_the_network_only(
    network_s: float, start_and_end: tuple[float, float]
) -> None:
    rows: list[Row] = [
        (1, 0.0, 3, 1000.0),
        (2, 0.0, 2, 1000.0),
        (3, 0.0, 4, 1000.0),
        (4, 0.0, 3, 500.0),
        (5, 10.0, 6, 100.0),
    ]
    instance = problem(2, 2, rows, (1.0, 1.0, 2.0), 0)
    assert times(instance, general(200.0, network_s))[5] == start_and_end


@pytest.mark.parametrize("preset", ["authors", "suite"])
def test_constant_timers_are_the_named_variants(preset: str) -> None:
    instance = random_instance(5, 60, Cluster.parse("6x4/2"))
    for name, wait in (("dally-no-wait", 0.0), ("dally-fully-consolidated", math.inf)):
        named = simulate(instance, make_scheduler(name, preset=preset))
        run = DelayRun(instance, Dally(preset=preset, tuner="static"))
        run.waits_s[:] = wait
        while run.play(run.simulation.now_s + 1800.0) is Outcome.DECIDE:
            run.waits_s[:] = wait
        assert run.simulation.log().digest() == named.digest()


# --- properties on random problems


@st.composite
def rules(draw: Any) -> dict[str, Any]:
    """Parameters that are valid on any instance."""
    choices: dict[str, list[Any]] = {
        "preset": ["suite", "authors"],
        "policy": ["dally", "dally", "tiresias", "gandiva"],
        "preemption": ["lease", "lease", "victim", "none"],
        "victim_held_s": [0.0, 100.0],
        "victim_margin": [0.0, 0.1],
        "lease_s": [60.0, 400.0, 3600.0],
        "tuner": ["hand", "off"],
        "rack_wait": [0.0, 0.7, 3.0],
        "nw_wait": [0.0, 2.0, 5.0],
        "offers": ["polled", "exact"],
        "fit": ["first", "best"],
        "order": ["asc", "hash", "java"],
        "order_seed": [0, 1, 2],
        "priority": ["nw", "gpu-time", "arrival", "first-start"],
        "min_sample": [0.1, 1.0],
        "floor_rack": [0.0, 1.0],
        "floor_nw": [0.0, 2.0],
        "renew": [False, True],
    }
    drawn = {name: draw(st.sampled_from(values)) for name, values in choices.items()}
    if drawn["tuner"] == "hand" or drawn["policy"] != "dally":
        del drawn["rack_wait"], drawn["nw_wait"]
    if drawn["policy"] != "dally":
        del drawn["tuner"]
    return drawn if drawn["policy"] == "dally" or drawn["preemption"] != "victim" else drawn | {"preemption": "lease"}


@settings(max_examples=60)
@given(
    given_rules=rules(),
    seed=st.integers(0, 10_000),
    cost_s=st.sampled_from([0.0, 30.0]),
    kind=st.sampled_from(["plain", "links", "steps"]),
)
def test_the_compiled_loop_gives_the_log_of_decide(
    given_rules: dict[str, Any], seed: int, cost_s: float, kind: str
) -> None:
    if kind == "links":
        instance = linked_scenario(jobs=30).instance(seed)
    elif kind == "steps":
        rng = np.random.default_rng(seed)
        arrival, gangs, ideal = rng.uniform(0, 3000, 30), rng.integers(1, 12, 30), rng.uniform(30, 900, 30)
        jobs = [(k, float(arrival[k]), int(gangs[k]), float(ideal[k])) for k in range(30)]
        instance = problem(3, 2, jobs, step=25, cost_s=cost_s)
    else:
        instance = random_instance(seed, 30, Cluster.parse("6x4/2"), checkpoint_s=cost_s, restore_s=cost_s)
    compiled = simulate(instance, Dally(**given_rules))
    assert compiled.digest() == simulate(instance, asked(Dally(**given_rules))).digest()
    validate(instance, compiled)
    assert np.isfinite(job_times(instance, compiled)["finish_s"]).all()


def check_grant(
    preset: str, free: np.ndarray, tier: int, gpus: np.ndarray, rack_open: bool, network_open: bool
) -> None:
    """Check the placement of a gang, given the ``free`` GPUs [rack, machine, GPU] and its expired timers.

    The timers run side by side. An offer of the network has the first free GPUs (``suite``: of the emptiest machines),
    which may lie in one rack: with nw_wait < rack_wait a gang may get a rack before its rack timer expires.
    """
    gang, (_, machines, each) = len(gpus), free.shape
    in_machines, in_racks = free.sum(axis=2), free.sum(axis=(1, 2))
    assert free.reshape(-1)[gpus].all()
    if in_machines.max() >= gang:  # accepted at any time, and the tightest tier
        assert tier == MACHINE
        return
    offered = free.copy()
    if in_racks.max() >= gang and (rack_open or gang > each):
        assert tier == RACK
        offered[np.arange(len(free)) != gpus[0] // (machines * each)] = False
    else:
        assert network_open or gang > machines * each
    if preset == "authors":
        assert gpus.tolist() == np.flatnonzero(offered)[:gang].tolist()
    else:
        most = np.cumsum(-np.sort(-offered.sum(axis=2).reshape(-1)))
        assert len(np.unique(gpus // each)) == 1 + np.searchsorted(most, gang)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    preset=st.sampled_from(["suite", "authors"]),
    waits=st.sampled_from([(0.0, 0.0), (0.5, 1.5), (3.0, 2.0), (math.inf, 2.0), (math.inf, math.inf)]),
    lease_s=st.sampled_from([100.0, 1000.0]),
)
# The network timer is over (200 s), the rack timer is not (300 s): after 283 s the first free GPUs lie in one rack.
@example(seed=176, preset="authors", waits=(3.0, 2.0), lease_s=100.0)
# After its network timer a gang gets the first free GPUs, not those of the rack with room for it.
@example(seed=302, preset="authors", waits=(math.inf, 2.0), lease_s=100.0)
def test_no_gang_accepts_an_outer_tier_before_its_timer_expires(
    seed: int, preset: str, waits: tuple[float, float], lease_s: float
) -> None:
    instance = random_instance(seed, 40, Cluster.parse("6x4/2"), checkpoint_s=0.0, restore_s=0.0)
    rules = dict(preset=preset, tuner="off", rack_wait=waits[0], nw_wait=waits[1], lease_s=lease_s, renew=False)
    log = simulate(instance, Dally(**rules))
    free = np.ones((3, 2, 4), bool)
    last_s = instance.workload.jobs["arrival_s"].copy()
    held: dict[int, np.ndarray] = {}
    started_s: dict[int, float] = {}
    for number, event in enumerate(log.events):
        job, now_s = int(event["job"]), float(event["time_s"])
        if event["kind"] in (START, RESUME):
            # as the scheduler computes it: "suite" wakes at the sum, "authors" compares the time waited
            is_over = [
                now_s >= last_s[job] + wait * lease_s if preset == "suite" else now_s - last_s[job] >= wait * lease_s
                for wait in waits
            ]
            held[job] = np.sort(log.gang(number))
            check_grant(preset, free, event["tier"], held[job], *is_over)
            free.reshape(-1)[held[job]] = False
            started_s[job] = now_s
        elif event["kind"] in (RELEASE, COMPLETE):
            free.reshape(-1)[held.pop(job)] = True
            last_s[job] = now_s
        elif event["kind"] == PREEMPT:  # only at the end of its lease
            assert now_s - started_s[job] == pytest.approx(lease_s)
    assert not held
    accounts = job_times(instance, log)
    np.testing.assert_allclose(accounts["jct_s"], accounts["queueing_s"] + accounts["service_s"], rtol=1e-9)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000), priority=st.sampled_from(["nw", "gpu-time"]))
def test_nw_is_compute_over_running_seconds(seed: int, priority: str) -> None:
    instance = random_instance(seed, 30, Cluster.parse("6x4/2"), checkpoint_s=30.0, restore_s=30.0)
    run = DelayRun(instance, Dally(lease_s=200.0, priority=priority, tuner="off", rack_wait=0.0, nw_wait=0.0))
    while run.play(run.simulation.now_s + 100.0) is Outcome.DECIDE:
        check_counts(run.simulation)
        state = run.simulation.arrays
        rows = np.arange(state.world["next_arrival"])
        nw = run.nw(rows)
        assert ((nw >= 0) & (nw <= 1 + 1e-9)).all()
        waiting = run.waiting
        assert sorted(waiting.tolist()) == waiting_rows(state).tolist()
        if priority == "nw":  # constant while the job waits, and the order of offers
            np.testing.assert_allclose(nw[waiting], run.delay.tasks["nw"][waiting], rtol=2e-9, atol=1e-12)
            assert (np.diff(run.delay.tasks["nw"][waiting]) >= 0).all()


def test_verdicts_list_accepted_and_refused_offers() -> None:
    run = DelayRun(problem(1, 2, TWO_AND_TWO), authors(1.0, 2.0), keep_verdicts=True)
    assert run.play() is Outcome.DONE
    of_job = run.verdicts[run.verdicts["job"] == 2]  # id 5: arrives at 10, refuses a rack twice, gets a machine
    assert of_job["time_s"].tolist() == [10.0, 1900.0, 3603.0]
    assert of_job["tier"].tolist() == [REFUSED, REFUSED, ON_SLOT]
    assert of_job["waited_s"].tolist() == [0.0, 1890.0, 3593.0]
    assert set(of_job["rack_wait_s"]) == {3600.0}
    assert set(of_job["network_wait_s"]) == {7200.0}


# --- hazards of the tuner


@settings(max_examples=100)
@given(zeros=st.integers(0, 40), waits=st.integers(1, 20), k_sigma=st.sampled_from([0.0, 1.0, 2.0, 3.0]))
def test_timers_collapse_where_too_few_waits_are_long(zeros: int, waits: int, k_sigma: float) -> None:
    """If a share p of the waits is T and the others are 0, mean + k sigma >= T exactly if p >= 1 / (1 + k^2)."""
    share, limit = waits / (zeros + waits), 1.0 / (1.0 + k_sigma**2)
    if abs(share - limit) < 1e-6:  # the result depends on rounding
        return
    long = 1e9  # [leases] so long that rounding up to whole leases is negligible
    wide = dict(k_sigma=k_sigma, floor_rack=0.0, floor_nw=0.0, cap_rack=1.0)
    rack, network = tuned([0.0] * zeros + [long] * waits, [long] * waits, 1e12, **wide)
    assert (rack >= long) == (share > limit)
    assert network == long  # without zeros it never falls below the waits


def test_without_history_the_tuner_is_no_wait() -> None:
    instance = random_instance(7, 60, Cluster.parse("6x4/2"))
    assert (
        simulate(instance, Dally(hist=0.0)).digest()
        == simulate(instance, make_scheduler("dally-no-wait")).digest()
        != simulate(instance, make_scheduler("dally-fully-consolidated")).digest()
    )


def test_zero_waits_never_raise_a_timer_above_its_floor() -> None:
    assert tuned([0.0] * 50, [0.0] * 50) == (6, 12)


def test_factors_of_one_are_the_hand_tuner_and_others_scale_its_timers() -> None:
    instance = random_instance(3, 60, Cluster.parse("6x4/2"))
    run = DelayRun(instance, Dally(lease_s=300.0))
    while run.play(run.simulation.now_s + 1800.0) is Outcome.DECIDE:
        run.factors[:] = 1.0
    assert run.simulation.log().digest() == simulate(instance, Dally(lease_s=300.0)).digest()
    run = DelayRun(instance, Dally(lease_s=300.0))
    by_hand = run.waits_s.copy()
    run.factors[:] = 4.0
    run.play(1.0)
    sizes = np.unique(instance.workload.jobs["gpus"])
    assert (by_hand[sizes] > 0).all()
    np.testing.assert_array_equal(run.waits_s[sizes], 4.0 * by_hand[sizes])


def test_a_lease_is_renewed_if_no_job_waits_and_no_tighter_place_is_free() -> None:
    rows: list[Row] = [(1, 0.0, 4, 9000.0)]
    instance = problem(1, 2, rows, step=0)
    kinds = simulate(instance, Dally()).events["kind"].tolist()
    assert kinds.count(LEASE_END) == 2
    assert PREEMPT not in kinds
    assert simulate(instance, Dally(renew=False)).events["kind"].tolist().count(PREEMPT) == 2


def test_each_row_of_a_table_of_waits_holds_up_to_its_gang_size(tmp_path: Path) -> None:
    path = tmp_path / "waits.json"
    path.write_text(json.dumps([[2, 60, 120], [8, 600, None]]))
    run = DelayRun(random_instance(1), Dally(tuner="static", timers=str(path)))
    assert run.waits_s[[1, 2, 3, 8, 9]].tolist() == [
        [60, 120],
        [60, 120],
        [600, math.inf],
        [600, math.inf],
        [600, math.inf],
    ]


@pytest.mark.parametrize(
    ("parameters", "complaint"),
    [
        ({"preset": "author"}, "authors"),
        ({"tuner": "manual"}, "tuner"),
        ({"lease_s": math.inf}, "preemption=none"),
        ({"tuner": "off", "rack_wait": math.nan}, "rack_wait"),
        ({"rack_wait": 3}, "rack_wait is for constant timers, but tuner=hand"),
        ({"tuner": "static", "timers": "8:900:inf", "nw_wait": 3}, "timers names a table"),
        ({"timers": "tuner.npz"}, "tuner=hand reads none"),
        ({"quirks": "Q9"}, "Q9"),
        ({"renew": "maybe"}, "renew is 'maybe'"),
    ],
)
def test_meaningless_parameters_are_refused(parameters: dict[str, Any], complaint: str) -> None:
    with pytest.raises(SchedulerError, match=complaint):
        Dally(**parameters)


def test_leases_that_end_before_a_gang_is_restored_are_refused() -> None:
    slow = random_instance(1)
    instance = Instance(slow.cluster, slow.workload, slow.network, Semantics(checkpoint_s=0.0, restore_s=600.0))
    with pytest.raises(SchedulerError, match="never finish"):
        DelayRun(instance, Dally(lease_s=600.0))
    for scheduler in (Dally(lease_s=601.0), Dally(lease_s=600.0, preemption="none")):
        assert DelayRun(instance, scheduler).play() is Outcome.DONE


@pytest.mark.parametrize("interval_s", [1800.0, 1357.0226844842844])
def test_timers_are_updated_once_an_interval(interval_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    # 926 x interval / interval rounds to a little less than 926
    looks: list[float] = []
    monkeypatch.setattr(TableTimers, "interval_s", interval_s)
    monkeypatch.setattr(TableTimers, "tune", lambda self, run: looks.append(run.simulation.now_s))
    work_s = 930 * interval_s
    run = DelayRun(problem(1, 1, [(1, 0.0, 4, work_s)], step=0), Dally(tuner="off", renew=True))
    assert run.play() is Outcome.DONE
    assert looks == [number * interval_s for number in range(1, 930)]  # the job ends at the next interval


@pytest.mark.parametrize("machines", [[0, 0, 1, 2], [0, 1, 2, 3.5]])
def test_an_order_that_misses_a_machine_is_refused(machines: list[float], tmp_path: Path) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps({"machines": machines}))
    with pytest.raises(SchedulerError, match="once each"):
        DelayRun(random_instance(1), Dally(order=str(path)))


@pytest.mark.parametrize(
    ("given", "slots"),
    [
        ({"machines": [2, 0, 1]}, [4, 5, 0, 1, 2, 3]),
        ({"machines": [2, 0, 1], "slots": [5, 0, 4, 1, 3, 2]}, [5, 0, 4, 1, 3, 2]),
    ],
)
def test_slots_are_visited_machine_by_machine_unless_their_order_is_given(
    given: dict[str, list[int]], slots: list[int], tmp_path: Path
) -> None:
    path = tmp_path / "order.json"
    path.write_text(json.dumps(given))
    run = DelayRun(random_instance(1, cluster=Cluster.parse("3x8s2")), Dally(order=str(path)))
    assert run.delay.node_order.tolist() == given["machines"]
    assert run.delay.slot_order.tolist() == slots


def test_the_leak_is_refused_without_steps() -> None:
    with pytest.raises(SchedulerError, match="step_iterations"):
        DelayRun(random_instance(1), Dally(preset="authors_published"))


def test_a_refused_start_leaves_its_gpus_on_offer_and_records_no_wait() -> None:
    """Two jobs want the whole machine; where the start of the first is not carried out, the second is asked as well."""
    instance = problem(1, 1, [(0, 0.0, 4, 100.0), (1, 0.0, 4, 100.0)])
    scheduler = Dally(min_sample=0.0)
    for refused, starts in ((True, [0, 1]), (False, [0])):
        simulation = Simulation(instance)
        view = simulation.view_for(scheduler)
        scheduler.reset(view)
        simulation.advance()
        asked = []
        for decision in scheduler.decide(view):
            if isinstance(decision, Start):
                asked.append(decision.job)
            if not refused:
                simulation.apply(decision)
        assert asked == starts
        assert scheduler._run.delay.counts.sum() == (0 if refused else 1)
