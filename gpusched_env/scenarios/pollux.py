"""The scenario of Pollux's simulator: elastic jobs on 64 T4 GPUs, decisions every minute, restarts of 30 s."""

from __future__ import annotations

from typing import Any, Final

from gpusched_env.errors import ScenarioError
from gpusched_env.network import Contention, Network, TopologySpec
from gpusched_env.problem.cluster import NodeGroup
from gpusched_env.problem.instance import Semantics
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.scenario import Scenario
from gpusched_env.scenarios.workload_spec import WorkloadSpec
from gpusched_env.traces.generators.pollux_jobs import JOBS

BATCHES: Final = ("adaptive", "fixed", "scaled")
SPEEDS: Final = ("fitted", "measured")


def pollux(
    jobs: int = JOBS,
    load: float | None = None,
    batch: str = "adaptive",
    round_s: float = 60.0,
    restart_s: float = 30.0,
    workload: str | None = None,
    speeds: str = "fitted",
    interference: float = 0.0,
) -> Scenario:
    """Build a scenario with 16 machines of four T4 GPUs and eight hours of elastic jobs like those of Pollux.

    Parameters
    ----------
    jobs : number of jobs
    load : arrival rate in units of 160 jobs per eight hours; None = ``jobs`` jobs arrive in eight hours
    batch : "adaptive" = at each size, a job has the batch with the largest goodput, as under Pollux; "fixed" = a job
        keeps the batch that its user tuned, as under Optimus and Tiresias; "scaled" = it keeps the batch on each GPU
    round_s : time between decisions [s]
    restart_s : time for which a gang makes no progress after it gets its GPUs [s]
    workload : path of one of Pollux's workload files, whose first ``jobs`` jobs are used; None = draw similar jobs
    speeds : "fitted" = step times by Pollux's fitted model; "measured" = by the measured table, as in its simulator
    interference : share of its rate that a gang of several machines loses while another one uses one of its machines

    Raises
    ------
    ScenarioError : ``load`` is given together with ``workload``

    References
    ----------
    Qiao et al., OSDI 2021; petuum/adaptdl, branch osdi21-artifact, ``simulator/``.
    """
    elastic = {"rule": f"{batch}-batch"} | ({"speeds": speeds} if speeds != "fitted" else {})
    network = Network(model="none")
    if interference:
        spread = Contention("flat", shared_loss=interference)
        network = Network("topology", topology=TopologySpec("single-switch"), contention=spread)
    if workload is None:
        parameters: dict[str, Any] = {"relative_load": jobs / JOBS if load is None else load}
        spec = WorkloadSpec("synthetic:pollux", parameters, profiles="own", jobs=jobs, elastic=elastic)
    elif load is not None:
        raise ScenarioError(f"workload={workload} has arrivals of its own: leave out load")
    else:
        spec = WorkloadSpec(f"pollux:{workload}", profiles="own", jobs=jobs, elastic=elastic)
    return Scenario(
        name="pollux-64",
        description="Elastic jobs on 16 machines: how many GPUs should each job have?",
        groups=(NodeGroup(16, 4, "T4"),),
        workload=spec,
        network=network,
        semantics=Semantics(
            round_s=round_s, checkpoint_s=0.0, restore_s=restart_s, start_s=restart_s, resize_s=restart_s
        ),
    )


POLLUX: Final = ScenarioFamily(
    "pollux-64-v0",
    pollux,
    (
        Parameter("jobs", JOBS, "jobs of an episode of eight hours", least=1, most=1_000_000, whole=True),
        Parameter("load", None, "arrival rate / 160 jobs in 8 h; default: all jobs in 8 h", least=0.01, most=100),
        Parameter(
            "batch",
            "adaptive",
            "batch of a job: of the largest goodput at each size; fixed; or fixed on a GPU",
            values=BATCHES,
        ),
        Parameter("round_s", 60.0, "seconds between decisions", least=1, most=86_400),
        Parameter("restart_s", 30.0, "seconds without progress after a gang gets its GPUs", least=0, most=86_400),
        Parameter("speeds", "fitted", "step times: of Pollux's fitted model, or measured", values=SPEEDS),
        Parameter("interference", 0.0, "rate lost by gangs of several machines that share one", least=0, most=0.99),
        Parameter("workload", None, "path of a Pollux workload file to play instead", text=True),
    ),
)
