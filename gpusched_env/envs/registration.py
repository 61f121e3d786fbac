"""Registration of the environments with Gymnasium."""

from __future__ import annotations

from typing import Any, Final

import gymnasium as gym

ENTRY_POINT: Final = "gpusched_env.envs.cluster_env:ClusterEnv"
VECTOR_ENTRY_POINT: Final = "gpusched_env.envs.cluster_vector_env:ClusterVectorEnv"  # for make_vec
# Default arguments of each id; ``make`` may override them and add others. An id always gives the same results: a change
# of results needs a new version number.
ENVIRONMENTS: Final[dict[str, dict[str, Any]]] = {
    "gpusched/Cluster-v0": {},  # any scenario; philly-64-v1 by default
    "gpusched/Steady-v0": {  # 800 jobs on 64 GPUs, run times unknown: which job starts where, and which is preempted
        "scenario": "steady-64-v0",  # steady-128-v0 is a harder one
        "queue_window": 16,
        "rules": ("consolidate", "pack", "spread"),
        "queue_order": "least-attained",
        "clairvoyant": False,
    },
    "gpusched/RingAllReduce-v0": {  # 160 jobs, all at time 0, on 20 servers; placement decides the makespan
        "scenario": "rar-160-v0",
        "running_window": 16,
        "rules": ("pack", "contention", "least-busy", "least-busy-servers"),
        "reward": "makespan",
    },
    "gpusched/NetworkSensitive-v0": {  # 256 GPUs, 800 jobs; wait for a better place, or start on shared links
        "scenario": "dally-poisson-v1",
        "queue_window": 64,
        "running_window": 32,
        "rules": ("consolidate", "pack"),
        "delays_s": (600.0, 3_600.0),
        "lease_s": 3_600.0,
        "clairvoyant": False,
    },
    "gpusched/Heterogeneous-v0": {  # 480 jobs, all at time 0, three GPU types: which job runs where, for how long
        "scenario": "hadar-60gpu-v1",
        "queue_window": 64,
        "running_window": 32,
        "rules": ("fastest-type", "pack", "spread"),
        "lease_s": 360.0,
        "reward": "makespan",
    },
    "gpusched/Sharing-v0": {  # 240 jobs on 64 GPUs, up to two per GPU: which jobs share, at which sub-batch
        "scenario": "bsbf-sim-240-v1",
        "queue_window": 16,
        "running_window": 0,
        "partner_window": 8,
        "sub_batches": 4,
        "rules": ("pack", "share-best-benefit"),
        "queue_order": "shortest",
        "running_order": "longest",
    },
    "gpusched/Elastic-v0": {  # 160 jobs on 64 GPUs: on how many GPUs does each job run, and when does it change
        "scenario": "pollux-64-v0",
        "queue_window": 16,
        "running_window": 32,
        "queue_order": "shortest",
        "running_order": "longest",
        "sizes": (1, 2, 3, 4, 6, 8, 12, 16, 24, 32),
    },
    "gpusched/Tenants-v0": {  # 4,000 jobs of three tenants on 256 GPUs: whose job starts, and whose is preempted
        "scenario": "cohort-256-v0",
        "queue_window": 64,
        "running_window": 32,
        "queue_order": "shortest",
        "running_order": "longest",
        "tenant_window": 3,
        "limits": True,
    },
    "gpusched/Pretraining-v0": {  # 2,000 jobs on 1,024 H100 that fail: which gang starts on which racks, what may wait
        "scenario": "llm-1024-h100-v0",
        "queue_window": 64,
        "running_window": 16,
        "rules": ("rails", "consolidate", "pack"),
        "delays_s": (600.0, 3_600.0),
        "clairvoyant": False,
        "tenant_window": 4,
    },
    "gpusched/Family-v0": {  # 300 jobs on 24 to 192 GPUs: another cluster, network and mix of jobs for each seed
        "scenario": "family-v1",
        "rules": ("consolidate", "fastest-type", "pack"),
    },
}
# An environment of another class: the agent sets Dally's delay timers; 256 GPUs, 800 jobs.
DELAY_TIMERS: Final = "gpusched/DelayTimers-v0"
_DELAY_TIMERS_ENTRY_POINT: Final = "gpusched_env.delay_timers.env:DelayTimersEnv"
_DELAY_TIMERS_VECTOR_ENTRY_POINT: Final = "gpusched_env.delay_timers.vector_env:DelayTimersVectorEnv"


def register_environments() -> None:
    """Register every environment with Gymnasium; a second call changes nothing."""
    for name, arguments in ENVIRONMENTS.items():
        if name not in gym.registry:
            gym.register(
                name,
                entry_point=ENTRY_POINT,
                vector_entry_point=VECTOR_ENTRY_POINT,
                order_enforce=False,  # the environment itself refuses a step before reset
                kwargs=arguments,
            )
    if DELAY_TIMERS not in gym.registry:
        gym.register(
            DELAY_TIMERS, entry_point=_DELAY_TIMERS_ENTRY_POINT, vector_entry_point=_DELAY_TIMERS_VECTOR_ENTRY_POINT
        )
