"""Effective training time of large gangs at measured failure rates: Daly's formula beside simulated runs.

``python -m studies.failures`` prints for each gang and rate the mean time between failures, Young's and Daly's
intervals, the ratio that theory gives at Daly's interval, at hourly checkpoints, and in simulated runs: one job that
trains for the days of the Llama 3 run on the nodes that it needs and spares, whose seeds draw other failures.
"""

from __future__ import annotations

from typing import Annotated, Final

import numpy as np
import typer
from rich.table import Table

from gpusched_env.baselines import make_scheduler
from gpusched_env.metrics import summarise
from gpusched_env.network import Network
from gpusched_env.problem.checkpoints import daly_s, effective_ratio, young_s
from gpusched_env.problem.cluster import Cluster
from gpusched_env.problem.failures import DAY_S, Failures
from gpusched_env.problem.instance import Instance, Semantics
from gpusched_env.problem.workload import Workload
from gpusched_env.simulator import simulate
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console

DAYS: Final = 54.0  # of Llama 3 405B
NODE_GPUS: Final = 8
SPARES: Final = (
    0.02  # share of further nodes; with repairs of 2 h, 1 % of the nodes of rates below 24 are down (choice)
)


def run_of(gpus: int, failures: Failures, interval_s: float, cost_s: float, recovery_s: float, days: float) -> Instance:
    """Return the problem of one job that trains for some days, without its outages."""
    nodes = -(-gpus // NODE_GPUS)
    cluster = Cluster.homogeneous(nodes + max(1, round(SPARES * nodes)), NODE_GPUS, 16)
    rules = Semantics(
        checkpoint_interval_s=interval_s, checkpoint_cost_s=cost_s, recovery_s=recovery_s, time_limit_s=4 * days * DAY_S
    )
    return Instance(cluster, Workload.from_columns([0.0], [gpus], [days * DAY_S]), Network("none"), rules)


def simulated(
    gpus: int, failures: Failures, interval_s: float, cost_s: float, recovery_s: float, seeds: int, days: float = DAYS
) -> np.ndarray:
    """float64 [seeds]: effective training time ratio of each seed."""
    problem = run_of(gpus, failures, interval_s, cost_s, recovery_s, days)
    found = []
    for seed in range(seeds):
        instance = failures.apply(problem, seed)
        found.append(summarise(instance, simulate(instance, make_scheduler("fifo")))["ettr"])
    return np.array(found)


def main(
    gpus: Annotated[str, typer.Option(metavar="GPUS,...")] = "2048,4096,16384",
    rates: Annotated[str, typer.Option(metavar="RATE,...")] = "3.79,6.5",
    cost: float = 10.0,
    recovery: float = 600.0,
    seeds: int = 5,
) -> None:
    """Print the table.

    Parameters
    ----------
    gpus : gang sizes [GPU]
    rates : failures of 1,000 nodes in a day
    cost : time without progress at each checkpoint [s]
    recovery : time from a failure until the gang makes progress again [s]
    seeds : number of simulated runs; 0 = none
    """
    table = Table(
        "GPUs", "rate", "between [h]", "Young [min]", "Daly [min]", "theory", "hourly", "simulated", "least", "most"
    )
    cluster = Cluster.homogeneous(1, NODE_GPUS)
    for size in map(int, gpus.split(",")):
        for rate in map(float, rates.split(",")):
            failures = Failures(rate)
            between_s = failures.between_s(np.array([size]), cluster)
            best_s = float(daly_s(between_s, cost)[0])
            ratios = [float(effective_ratio(between_s, cost, recovery, every)[0]) for every in (best_s, 3_600.0)]
            runs = simulated(size, failures, best_s, cost, recovery, seeds) if seeds else np.full(1, np.nan)
            minutes = [float(young_s(between_s, cost)[0]) / 60, best_s / 60]
            numbers = [float(between_s[0]) / 3_600, *minutes]
            shown = [f"{one:.3f}" for one in (*ratios, runs.mean(), runs.min(), runs.max())]
            table.add_row(f"{size:,}", f"{rate:g}", *(f"{one:.2f}" for one in numbers), *shown)
    console().print(table)


if __name__ == "__main__":
    run_script(main)
