"""Failures beside renewal theory: the best checkpoint interval, availability of nodes, interruptions of gangs."""

import math

import numpy as np
import pytest
from helpers import unit_instance

from gpusched_env.baselines import make_scheduler
from gpusched_env.event_log import FAIL
from gpusched_env.problem.checkpoints import daly_s, effective_ratio
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.failures import DAY_S, Failures
from gpusched_env.simulator import simulate

NODES = 20  # of the gang whose best interval is sought


def test_the_best_interval_of_simulated_runs_is_dalys() -> None:
    """A gang fails some 20,000 times, at the same times whatever its interval D is.

    The curve of wall time is flat, so its lowest point on a grid is noise. Its minimum is that of the least-squares fit
    a / D + c + b D + d D^2: the standard error of b, and so twice that of the optimum, is about sqrt(4 / 3 / 20,000).
    """
    between_s, cost_s, recovery_s = 20_000.0, 10.0, 300.0
    work_s = 20_000 * between_s
    failures = Failures(1_000 * DAY_S / between_s / NODES, repair_s=0.0, until_s=1.5 * work_s)
    found = failures.draw(0, Cluster.homogeneous(NODES, 1), 1.5 * work_s)
    best_s = float(daly_s(between_s, cost_s))
    grid_s = best_s * np.array([0.4, 0.5, 0.65, 0.8, 1.0, 1.25, 1.5, 2.0, 2.5])
    ratio = []
    for interval_s in grid_s:
        rules = {"checkpoint_interval_s": interval_s, "checkpoint_cost_s": cost_s, "recovery_s": recovery_s}
        instance = unit_instance([0.0], [NODES], [work_s], f"{NODES}x1", **rules)
        instance.outages = found
        ratio.append(work_s / simulate(instance, make_scheduler("fifo")).events["time_s"][-1])
    x = grid_s / best_s
    a, c, b, d = np.linalg.lstsq(np.stack([1 / x, x**0, x, x**2], 1), 1 / np.array(ratio), rcond=None)[0]
    fine = np.linspace(0.5, 2.0, 3_001)
    assert fine[np.argmin(a / fine + c + b * fine + d * fine**2)] == pytest.approx(1.0, abs=0.05)
    assert ratio == pytest.approx(effective_ratio(between_s, cost_s, recovery_s, grid_s), rel=2e-3)
    assert max(ratio) < 1.0005 * ratio[4]


@pytest.mark.parametrize(("shape", "sigma"), [(1.0, 0.0), (0.7, 1.0), (2.0, 0.5)])
def test_nodes_are_up_for_up_of_up_and_down(shape: float, sigma: float) -> None:
    up_s, down_s, nodes = DAY_S, 7_200.0, 100
    horizon_s = 1_000 * (up_s + down_s)
    failures = Failures(1_000.0, shape=shape, repair_s=down_s, repair_sigma=sigma)
    rows = failures.draw(3, Cluster.homogeneous(nodes, 8), horizon_s).rows
    lost_s = np.minimum(rows["end_s"], horizon_s) - rows["start_s"]
    up = 1.0 - np.bincount(rows["node"], lost_s, nodes) / horizon_s
    assert abs(up.mean() - up_s / (up_s + down_s)) < 4.0 * up.std() / math.sqrt(nodes)


@pytest.mark.parametrize("nodes", [1, 16, 64])
def test_a_gang_is_interrupted_n_r_t_times(nodes: int) -> None:
    """Interruptions are a Poisson process: mean and variance of 100 runs are N r t, within 4 standard errors."""
    days, runs = 640.0 / nodes, 100
    failures = Failures(50.0, repair_s=0.0, until_s=days * DAY_S)
    problem = unit_instance([0.0], [8 * nodes], [2 * days * DAY_S], f"{nodes}x8", checkpoint_interval_s=60.0)
    logs = [simulate(failures.apply(problem, seed), make_scheduler("fifo")) for seed in range(runs)]
    counts = np.array([(log.events["kind"] == FAIL).sum() for log in logs])
    expected = nodes * 50.0 / 1_000 * days
    assert abs(counts.mean() - expected) < 4.0 * math.sqrt(expected / runs)
    assert abs(counts.var(ddof=1) / expected - 1.0) < 4.0 * math.sqrt(2.0 / (runs - 1))
