"""The scenario of Pollux's simulator: elastic jobs on 64 T4 GPUs, decisions every minute, restarts of 30 s."""

from __future__ import annotations

from types import SimpleNamespace
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


def _pollux(**given: Any) -> Scenario:
    """Build a scenario with 16 machines of four T4 GPUs and eight hours of elastic jobs like those of Pollux.

    References
    ----------
    Qiao et al., OSDI 2021; petuum/adaptdl, branch osdi21-artifact, ``simulator/``.
    """
    p = SimpleNamespace(**given)
    elastic = {"rule": f"{p.batch}-batch"} | ({"speeds": p.speeds} if p.speeds != "fitted" else {})
    network = Network(model="none")
    if p.interference:
        spread = Contention("flat", shared_loss=p.interference)
        network = Network("topology", topology=TopologySpec("single-switch"), contention=spread)
    if p.workload is None:
        parameters: dict[str, Any] = {"relative_load": p.jobs / JOBS if p.load is None else p.load}
        spec = WorkloadSpec("synthetic:pollux", parameters, profiles="own", jobs=p.jobs, elastic=elastic)
    elif p.load is not None:
        raise ScenarioError(f"workload={p.workload} has arrivals of its own: leave out load")
    else:
        spec = WorkloadSpec(f"pollux:{p.workload}", profiles="own", jobs=p.jobs, elastic=elastic)
    return Scenario(
        name="pollux-64",
        description="Elastic jobs on 16 machines: how many GPUs should each job have?",
        groups=(NodeGroup(16, 4, "T4"),),
        workload=spec,
        network=network,
        semantics=Semantics(
            round_s=p.round_s, checkpoint_s=0.0, restore_s=p.restart_s, start_s=p.restart_s, resize_s=p.restart_s
        ),
    )


POLLUX: Final = ScenarioFamily(
    "pollux-64-v0",
    _pollux,
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
pollux = POLLUX.plain
