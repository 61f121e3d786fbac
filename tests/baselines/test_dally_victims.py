"""Dally that preempts gangs for waiting jobs: which gangs may be victims, how many, and for which tier."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from helpers import play, simulate
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gpusched_env.baselines.dally.run import DelayRun
from gpusched_env.baselines.dally.scheduler import Dally
from gpusched_env.errors import SchedulerError
from gpusched_env.event_log import LEASE_END, PREEMPT, RESUME, START
from gpusched_env.problem.cluster import NETWORK, RACK
from tests.baselines.test_dally import Row, problem, times


def victim(**parameters: Any) -> Dally:
    """Dally with victims; jobs accept only a machine unless ``parameters`` say otherwise."""
    return Dally(**({"preemption": "victim", "tuner": "off", "rack_wait": np.inf, "nw_wait": np.inf} | parameters))


# Two machines of four GPUs in one rack are full; job 3 looks for victims when it arrives, and when its timer expires.
FULL: list[Row] = [(1, 0.0, 4, 7200.0), (2, 0.0, 4, 7200.0), (3, 600.0, 4, 600.0)]


def test_the_less_network_sensitive_gang_is_the_victim_and_both_costs_are_paid() -> None:
    instance = problem(1, 2, FULL, step=0, cost_s=30.0)
    # At 600 s no gang has held its GPUs for 1,200 s; the timer of a quarter of a lease expires at 1,500 s. Job 1 waits
    # from 1,530 to 2,130 s, is restored until 2,160 s, and has 5,700 s left.
    assert times(instance, victim(rack_wait=0.25)) == {1: (0.0, 7860.0), 2: (0.0, 7200.0), 3: (1530.0, 2130.0)}


def test_in_steps_the_victim_ends_its_step() -> None:
    # Job 3 arrives at 2,010 s, the 34th step of 60 s ends at 2,040 s.
    rows: list[Row] = [*FULL[:2], (3, 2010.0, 4, 600.0)]
    assert times(problem(1, 2, rows), victim()) == {1: (0.0, 7800.0), 2: (0.0, 7200.0), 3: (2040.0, 2640.0)}


@pytest.mark.parametrize("spared", [{"victim_margin": 1.1}, {"victim_held_s": 1501.0}, {"victim_limit": 0}])
def test_a_gang_that_may_not_be_a_victim_keeps_its_lease(spared: dict[str, float]) -> None:
    instance = problem(1, 2, FULL, step=0)
    log = simulate(instance, victim(rack_wait=0.25, **spared))
    assert log.digest() == simulate(instance, victim(rack_wait=0.25, preemption="lease")).digest()
    assert log.digest() != simulate(instance, victim(rack_wait=0.25)).digest()


@pytest.mark.parametrize(("limit", "start_s"), [(1, 5700.0), (2, 4000.0)])
def test_a_gang_is_a_victim_at_most_as_often_as_the_limit_says(limit: int, start_s: float) -> None:
    rows: list[Row] = [(1, 0.0, 4, 7200.0), (2, 2000.0, 4, 100.0), (3, 4000.0, 4, 100.0)]
    found = times(problem(1, 1, rows, step=0), victim(victim_limit=limit))
    assert found[2] == (2000.0, 2100.0)
    assert found[3][0] == start_s  # or when the lease that began at 2,100 s is over


def test_the_fewest_victims_are_chosen() -> None:
    # Machine 0 has two gangs, machine 1 one.
    rows: list[Row] = [(1, 0.0, 2, 7200.0), (2, 0.0, 2, 7200.0), (3, 0.0, 4, 7200.0), (4, 2000.0, 4, 600.0)]
    found = times(problem(1, 2, rows, step=0), victim())
    assert found == {1: (0.0, 7200.0), 2: (0.0, 7200.0), 3: (0.0, 7800.0), 4: (2000.0, 2600.0)}


def test_two_victims_are_chosen_if_one_is_too_small() -> None:
    rows: list[Row] = [(1, 0.0, 2, 7200.0), (2, 0.0, 1, 7200.0), (3, 0.0, 1, 7200.0), (4, 2000.0, 3, 600.0)]
    found = times(problem(1, 1, rows, step=0), victim())
    assert found == {1: (0.0, 7800.0), 2: (0.0, 7800.0), 3: (0.0, 7200.0), 4: (2000.0, 2600.0)}


def test_no_victim_is_chosen_for_a_tier_that_is_free() -> None:
    rows: list[Row] = [(1, 0.0, 3, 9000.0), (2, 0.0, 3, 9000.0), (3, 2000.0, 2, 100.0)]
    instance = problem(1, 2, rows, step=0)
    # The job refuses the two GPUs of the rack, since a machine is tighter. If it accepts a rack it takes them.
    assert times(instance, victim())[3] == (2000.0, 2100.0)
    assert times(instance, victim(rack_wait=0.0))[3] == (2000.0, 2200.0)
    # Six GPUs fit on no machine, two are free, and the job accepts a rack.
    rows[2] = (3, 2000.0, 6, 100.0)
    found = times(problem(1, 2, rows, step=0), victim())
    assert found[3] == (2000.0, 2200.0)
    assert found[1] == found[2] == (0.0, 9200.0)
    # The same six GPUs over two racks: the network is not accepted before its timer.
    spread = problem(2, 1, rows, step=0)
    assert times(spread, victim())[3] == (2000.0, 2400.0)  # larger than a rack: only the network can hold the gang
    small: list[Row] = [(1, 0.0, 4, 9000.0), (2, 0.0, 3, 9000.0), (3, 0.0, 3, 9000.0), (4, 2000.0, 2, 100.0)]
    assert times(problem(3, 1, small, step=0), victim(victim_limit=0, nw_wait=0.0))[4] == (2000.0, 2400.0)
    assert times(problem(3, 1, small, step=0), victim())[4] == (2000.0, 2100.0)


def fewest(
    held: list[set[int]], free: set[int], gang: int, accepted: list[bool], tiers: list[list[set[int]]]
) -> tuple[int, int] | None:
    """Try all sets of victims: the least number, and the tightest tier with so many; None = no set is enough."""

    def fit(gpus: set[int]) -> list[bool]:
        return [any(len(place & gpus) >= gang for place in places) for places in tiers]

    now = fit(free)
    if any(fits and takes for fits, takes in zip(now, accepted, strict=True)):
        return 0, next(t for t in range(3) if now[t] and accepted[t])
    better = now.index(True) if any(now) else 3
    for count in range(1, len(held) + 1):
        found = [fit(free.union(*some)) for some in combinations(held, count)]
        for tier in range(better):
            if accepted[tier] and any(fits[tier] for fits in found):
                return count, tier
    return None


@settings(max_examples=150)
@given(
    gangs=st.lists(st.integers(1, 6), min_size=3, max_size=9),
    gang=st.integers(1, 12),
    margin=st.sampled_from([0.1, 0.4, 0.8]),
    waits=st.sampled_from([(0.0, 0.0), (0.0, np.inf), (np.inf, 0.0), (np.inf, np.inf)]),
)
def test_no_smaller_set_of_victims_would_do(
    gangs: list[int], gang: int, margin: float, waits: tuple[float, float]
) -> None:
    """Two racks of two machines.
    When a job arrives, gangs of up to six GPUs have run for 2,000 s at Nw 1, 1/2 or 1/4.
    """
    assume(sum(gangs) <= 16)
    rows = [*((k, 0.0, size, 90_000.0) for k, size in enumerate(gangs)), (len(gangs), 2000.0, gang, 100.0)]
    instance = problem(2, 2, rows, step=0)
    run = DelayRun(instance, victim(lease_s=1e6, rack_wait=waits[0], nw_wait=waits[1], victim_margin=margin))
    run.play(2000.0)
    assume(run.simulation.arrays.world["waiting"] == 1)
    log = run.simulation.log()
    nw = run.nw(np.arange(len(gangs)))
    gpus = [set(log.gang(k).tolist()) for k in np.flatnonzero(log.events["kind"] == START)]
    rows_of = log.events["job"][log.events["kind"] == START]
    held = [of for of, row in zip(gpus, rows_of, strict=True) if nw[row] >= margin]
    free = set(range(16)).difference(*gpus)
    blocks = {size: [set(range(k, k + size)) for k in range(0, 16, size)] for size in (4, 8, 16)}
    accepted = [True, gang > 4 or waits[0] == 0, gang > 8 or waits[1] == 0]
    expected = fewest(held, free, gang, accepted, [blocks[4], blocks[8], blocks[16]])
    run.play(2000.5)
    events = run.simulation.log().events
    started = np.flatnonzero((events["kind"] == START) & (events["job"] == len(gangs)))
    assert (expected is None) == (len(started) == 0)
    if expected is not None:
        before = events[: started[0]]
        fewest_stop, offered = expected
        assert np.count_nonzero(before["kind"] == PREEMPT) == fewest_stop
        tier = events["tier"][started[0]]
        # GPUs "anywhere" may happen to lie in one rack.
        assert tier == offered or (tier == RACK and offered == NETWORK)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    held_s=st.sampled_from([0.0, 50.0, 300.0]),
    limit=st.integers(1, 3),
    cost_s=st.sampled_from([0.0, 30.0]),
    rack_wait=st.sampled_from([0.0, 0.5, np.inf]),
)
def test_victims_have_held_their_gpus_long_enough_and_are_chosen_within_the_limit(
    seed: int, held_s: float, limit: int, cost_s: float, rack_wait: float
) -> None:
    rng = np.random.default_rng(seed)
    arrival, gangs, ideal = rng.uniform(0, 3000, 40), rng.integers(1, 9, 40), rng.uniform(30, 900, 40)
    jobs = [(k, float(arrival[k]), int(gangs[k]), float(ideal[k])) for k in range(40)]
    instance = problem(3, 2, jobs, step=0, cost_s=cost_s)
    rules = dict(victim_held_s=held_s, victim_limit=limit, lease_s=600.0, rack_wait=rack_wait, nw_wait=1.0)
    log = play(instance, victim(**rules))
    started: dict[int, float] = {}
    ended: dict[int, float] = {}
    times_asked = np.zeros(len(instance.workload), int)
    for event in log.events:
        job, time_s = int(event["job"]), float(event["time_s"])
        if event["kind"] in (START, RESUME):
            started[job] = time_s
        elif event["kind"] == LEASE_END:
            ended[job] = time_s
        elif event["kind"] == PREEMPT and ended.get(job) != time_s:
            assert time_s - started[job] >= held_s
            times_asked[job] += 1
    assert times_asked.max() <= limit


def test_victims_and_the_leak_or_another_policy_are_refused() -> None:
    with pytest.raises(SchedulerError, match="Q1"):
        Dally(preset="authors_published", preemption="victim")
    with pytest.raises(SchedulerError, match="tiresias"):
        Dally(policy="tiresias", preemption="victim")
