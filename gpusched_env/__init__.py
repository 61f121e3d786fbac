"""GPU-cluster scheduling: an exact event-driven simulator, its Gymnasium environments, and published schedulers.

Importing this package registers the environments. It loads only numpy and gymnasium; the compiled simulator is loaded
on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.envs.registration import register_environments

if TYPE_CHECKING:
    from gpusched_env.baselines import make_scheduler as make_scheduler
    from gpusched_env.envs.cluster_env import ClusterEnv as ClusterEnv
    from gpusched_env.errors import GpuschedError as GpuschedError
    from gpusched_env.network import Contention as Contention
    from gpusched_env.network import Network as Network
    from gpusched_env.network import NetworkChange as NetworkChange
    from gpusched_env.network import TopologySpec as TopologySpec
    from gpusched_env.problem.cluster import Cluster as Cluster
    from gpusched_env.problem.cluster import NodeGroup as NodeGroup
    from gpusched_env.problem.instance import Instance as Instance
    from gpusched_env.problem.instance import Semantics as Semantics
    from gpusched_env.problem.workload import Profiles as Profiles
    from gpusched_env.problem.workload import Workload as Workload
    from gpusched_env.scenarios import Scenario as Scenario
    from gpusched_env.scenarios import get_scenario as get_scenario
    from gpusched_env.scenarios import list_scenarios as list_scenarios
    from gpusched_env.simulator import ClairvoyantView as ClairvoyantView
    from gpusched_env.simulator import ClusterView as ClusterView
    from gpusched_env.simulator import CompiledScheduler as CompiledScheduler
    from gpusched_env.simulator import Decision as Decision
    from gpusched_env.simulator import Lease as Lease
    from gpusched_env.simulator import Preempt as Preempt
    from gpusched_env.simulator import Refuse as Refuse
    from gpusched_env.simulator import Resize as Resize
    from gpusched_env.simulator import Scheduler as Scheduler
    from gpusched_env.simulator import Simulation as Simulation
    from gpusched_env.simulator import Start as Start
    from gpusched_env.simulator import Wait as Wait
    from gpusched_env.simulator import simulate as simulate

__version__: Final = "1.0.0"

# Loaded on first use, so that ``import gpusched_env`` stays cheap.
_LAZY: Final = {
    "ClairvoyantView": "simulator", "Cluster": "problem.cluster", "ClusterEnv": "envs.cluster_env",
    "ClusterView": "simulator", "CompiledScheduler": "simulator", "Contention": "network", "Decision": "simulator",
    "GpuschedError": "errors", "Instance": "problem.instance", "Lease": "simulator", "Network": "network",
    "NetworkChange": "network", "NodeGroup": "problem.cluster", "Preempt": "simulator", "Profiles": "problem.workload",
    "Refuse": "simulator", "Resize": "simulator", "Scenario": "scenarios", "Scheduler": "simulator",
    "Semantics": "problem.instance", "Simulation": "simulator", "Start": "simulator", "TopologySpec": "network",
    "Wait": "simulator", "Workload": "problem.workload", "get_scenario": "scenarios", "list_scenarios": "scenarios",
    "make_scheduler": "baselines", "simulate": "simulator",
}  # fmt: skip
__all__ = ["__version__", "register_environments", *_LAZY]  # noqa: PLE0604 - all strings


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])


register_environments()
