"""Strict priority: random runs beside NumPy, closed forms, and what Crux measured without it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from crux_reference import levels_of, priorities
from hypothesis import assume, given
from hypothesis import strategies as st

from gpusched_env.errors import ScenarioError
from gpusched_env.metrics import validate
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.instance import Instance
from gpusched_env.problem.performance import overlapped
from gpusched_env.problem.workload import Profiles, Workload
from gpusched_env.simulator import ClusterView, Simulation, Start, simulate
from tests.network.test_replay import Restless, check, draw

PORT_BPS = 1e9


def ranked(instance: Instance, levels: int = 8, model: str = "strict-priority") -> Instance:
    contention = replace(instance.network.contention, model=model, levels=levels, ratios="")
    return Instance(
        instance.cluster,
        instance.workload,
        replace(instance.network, contention=contention),
        instance.semantics,
    )


@pytest.mark.parametrize(("seed", "levels"), [(0, 1), (1, 2), (2, 2), (3, 3), (4, 3), (6, 8), (8, 2), (9, 3), (10, 8)])
def test_rates_follow_from_the_log_alone(seed: int, levels: int, tmp_path: Path) -> None:
    instance = ranked(draw(seed, tmp_path), levels)
    log = simulate(instance, Restless(seed), seed=seed)
    validate(instance, log)
    assert check(instance, log) > 0


@pytest.mark.parametrize("seed", [0, 3, 8])
def test_one_level_is_max_min(seed: int, tmp_path: Path) -> None:
    instance = draw(seed, tmp_path)
    one, fair = (
        simulate(ranked(instance, 1, model), Restless(seed), seed=seed) for model in ("strict-priority", "maxmin")
    )
    assert one.events["time_s"] == pytest.approx(fair.events["time_s"], rel=1e-9)
    assert one.events["kind"].tolist() == fair.events["kind"].tolist()


def pair(compute_s: tuple[float, float], sent: tuple[float, float], contention: Contention) -> np.ndarray:
    """Seconds of an iteration of two gangs on the ports of two machines, whose transfers take ``sent`` s alone."""
    rows = [
        dict(
            name=name, batch=1, gradient_bytes=s * PORT_BPS / 1.5, memory_bytes=0.0, skew=0.0, overlap=1.0, compute_s=c
        )
        for name, c, s in zip("ab", compute_s, sent, strict=True)
    ]
    profiles = Profiles.from_rows(rows)
    workload = Workload.from_columns([0.0, 0.0], [4, 4], iterations=[1e4, 1e4], profiles=profiles, profile=[0, 1])
    spec = TopologySpec("single-switch", nic_GBps=1.0, gpu_GBps=1e3, gpu_latency_s=0.0, nic_latency_s=0.0)
    network = Network("topology", topology=spec, contention=contention)
    simulation = Simulation(Instance(Cluster.parse("2x4"), workload, network))
    view = ClusterView(simulation)
    simulation.advance()
    for job in range(2):
        assert not simulation.apply(Start(job, gpus=[2 * job, 2 * job + 1, 4 + 2 * job, 5 + 2 * job]))
    return view.network.iteration_s(np.arange(2))


def test_the_lower_level_gets_the_time_in_which_the_higher_one_is_silent() -> None:
    seconds = pair((3.0, 1.0), (1.0, 1.0), Contention("strict-priority"))
    assert seconds == pytest.approx([4.0, 1.0 + 1.0 / (1 - 1 / 4)])


def test_gangs_alike_share_a_level() -> None:
    assert pair((1.0, 1.0), (1.0, 1.0), Contention("strict-priority")) == pytest.approx([3.0, 3.0])
    # neither order is better, for both lose the same share of the same number of GPUs
    assert pair((1.0, 4.0), (1.0, 4.0), Contention("strict-priority")) == pytest.approx([3.0, 12.0])


def test_fair_shares_slow_two_jobs_as_crux_measured() -> None:
    """One number, the share of communication, is fitted to two.

    Crux measured that GPT's iteration takes 11.0 % longer, and that BERT is 7.7 % slower, so its iteration takes 8.3 %
    longer. Beside each other, both lose the product of their shares here, whatever these are.
    """
    share = 0.31
    alone = np.array([1.53, 0.5])
    compute, sent = alone * (1 - share), alone * share
    seconds = pair(tuple(compute), tuple(sent), Contention("maxmin", duty="solo"))  # type: ignore[arg-type]
    assert 100 * (seconds / alone - 1) == pytest.approx([11.0, 8.3], abs=3.0)
    seconds = pair((0.8, 0.6), (0.2, 0.4), Contention("maxmin", duty="solo"))
    assert seconds == pytest.approx([1.08, 1.08])


class Sender(SimpleNamespace):
    """A gang as :mod:`crux_reference` sees it."""

    def iteration_s(self, slowdown: float = 1.0) -> float:
        parts = np.array(self.compute_s), np.array(self.wire_bytes / self.solo_Bps * slowdown), np.array(self.overlap)
        return float(overlapped(*parts))

    @property
    def duty(self) -> float:
        return self.wire_bytes / self.solo_Bps / self.iteration_s()


senders = st.builds(
    Sender,
    compute_s=st.floats(0.01, 10.0),
    wire_bytes=st.floats(1e7, 1e10),
    overlap=st.sampled_from([1.0, 2.0]),
    gpus=st.integers(2, 16).map(range),
    solo_Bps=st.just(PORT_BPS),
    job=st.just(0),
    start=st.just(0),
)


@given(senders, senders)
def test_a_priority_orders_two_gangs_as_they_lose_least(one: Sender, other: Sender) -> None:
    """The corrected intensity is above the other's if and only if this order computes more."""

    def computes(first: Sender, second: Sender) -> float:
        duty = first.wire_bytes / first.solo_Bps / first.iteration_s()
        work = [gang.compute_s * len(gang.gpus) for gang in (first, second)]
        return work[0] / first.iteration_s() + work[1] / second.iteration_s(1.0 / (1.0 - duty))

    (a, b), _ = priorities([one, other])
    first, second = computes(one, other), computes(other, one)
    assume(abs(first - second) > 1e-6 * first)
    assert (a > b) == (first > second)


def test_the_cut_keeps_the_dearest_pairs_apart() -> None:
    """Three gangs on one link and two levels: the two with the least to lose share one."""
    gangs = [
        Sender(compute_s=c, wire_bytes=1e9, overlap=1.0, gpus=range(4), solo_Bps=PORT_BPS, job=i, start=0)
        for i, c in enumerate((1.0, 8.0, 2.0))
    ]
    assert levels_of(gangs, np.ones((3, 3), bool), 2, 0).tolist() == [1, 0, 1]


@pytest.mark.parametrize("levels", [0, 9, 2.5, True])
def test_wrong_numbers_of_levels_are_refused(levels: Any) -> None:
    with pytest.raises(ScenarioError, match=r"levels is .*: give a whole number from 1 to 8"):
        Contention("strict-priority", levels=levels)
