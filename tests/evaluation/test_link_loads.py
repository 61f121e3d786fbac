"""Loads of links at any time, computed from a log."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_play import instance_of, network

from gpusched_env.baselines import make_scheduler
from gpusched_env.errors import GpuschedError
from gpusched_env.evaluation.link_loads import link_loads
from gpusched_env.problem.instance import Instance
from gpusched_env.scenarios import get_scenario
from gpusched_env.simulator import ClusterView, Outcome, Simulation, simulate


def test_two_gangs_on_the_same_ports() -> None:
    """12 GB/s on each port while a gang uses it, shared or not; nothing before and after."""
    gangs = [{0: 4, 1: 4}, {0: 4, 1: 4}]
    instance, scheduler = instance_of("3x8", gangs, network(), iterations=[500.0, 1000.0], arrival=[10.0, 20.0])
    log = simulate(instance, scheduler)
    end = float(log.events["time_s"][-1])
    loads = link_loads(instance, log, [0.0, 15.0, end, 25.0, end - 1.0, -3.0])
    both = [12e9, 12e9, 0.0]
    expected = [[0.0] * 3, both, [0.0] * 3, both, both, [0.0] * 3]
    np.testing.assert_allclose(loads, expected, rtol=1e-12)


@settings(max_examples=10)
@given(
    st.integers(0, 100), st.sampled_from(["srtf", "las", "fifo-skip:placement=random"]), st.sampled_from([0.0, 300.0])
)
def test_loads_from_the_log_equal_those_of_the_run(seed: int, spec: str, round_s: float) -> None:
    scenario = get_scenario("leaf-spine-256-v1")
    scenario = scenario.replace(workload=dataclasses.replace(scenario.workload, jobs=30))
    drawn = scenario.instance(seed)
    rules = dataclasses.replace(drawn.semantics, round_s=round_s)
    instance = Instance(drawn.cluster, drawn.workload, drawn.network, rules)
    scheduler = make_scheduler(spec)
    simulation = Simulation(instance, seed)
    view = simulation.view_for(scheduler)
    scheduler.reset(view)
    times, seen = [], []
    while simulation.advance() is Outcome.DECIDE:
        for decision in scheduler.decide(view):
            simulation.apply(decision)
        times.append(simulation.now_s)
        seen.append(ClusterView(simulation).network.loads_Bps())
    last = {time: at for at, time in enumerate(times)}  # the state after the last event at each time
    shuffled = np.random.default_rng(seed).permutation(sorted(last))
    found = link_loads(instance, simulation.log(), shuffled)
    for time, loads in zip(shuffled.tolist(), found, strict=True):
        np.testing.assert_array_equal(loads, seen[last[time]])


def test_refusals() -> None:
    instance, scheduler = instance_of("2x8", [{0: 4, 1: 4}], network())
    log = simulate(instance, scheduler)
    with pytest.raises(GpuschedError, match="a time is NaN"):
        link_loads(instance, log, [np.nan])
    plain = get_scenario("tiny-v1").instance(0)
    with pytest.raises(GpuschedError, match="priced by tiers"):
        link_loads(plain, simulate(plain, make_scheduler("fifo")), [0.0])
    other, _ = instance_of("2x8", [{0: 2, 1: 4}], network())
    with pytest.raises(GpuschedError, match="event 1 of the log cannot be played again: the number of explicit GPUs"):
        link_loads(other, log, [1.0])
