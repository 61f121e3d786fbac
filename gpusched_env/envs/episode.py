"""What an episode needs of its instance beside the simulator's state."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusched_env.cluster import NETWORK, RACK
from gpusched_env.envs.encoding import CLASS_DTYPE
from gpusched_env.errors import ScenarioError
from gpusched_env.instance import Instance
from gpusched_env.simulator import RULE_NUMBER, Simulation
from gpusched_env.simulator.events import rule_holds


def class_table(instance: Instance) -> np.ndarray:
    """CLASS_DTYPE [1, C]: what the observation tells of a job's class."""
    profile, gang = instance.classes[:, 0], instance.classes[:, 1]
    fastest = instance.iteration_s.min(axis=2)
    ideal = fastest[np.arange(len(gang)), instance.cluster.tightest_tier(gang)]
    table = np.zeros((1, len(gang)), CLASS_DTYPE)
    table["ideal_iteration_s"] = ideal
    table["rack_loss"] = np.maximum(1.0 - ideal / fastest[:, RACK], 0.0)
    table["network_loss"] = np.maximum(1.0 - ideal / fastest[:, NETWORK], 0.0)
    table["skew"] = instance.workload.profiles.rows["skew"][profile]
    return table


def check_rules(instance: Instance, rules: Sequence[str]) -> None:
    """Refuse placement rules under which some gang would wait for ever.

    Raises
    ------
    ScenarioError : no rule places some job's gang on the empty cluster
    """
    empty = Simulation(instance)
    for gang in np.unique(instance.workload.jobs["gpus"]).tolist():
        if not any(rule_holds(*empty.arguments, gang, RULE_NUMBER[rule]) for rule in rules):
            raise ScenarioError(
                f"rules {tuple(rules)}: none of them places a gang of {gang} GPUs even on the empty cluster; "
                "add a rule that may cross racks, such as 'pack'"
            )
