"""Scenarios: descriptions of experiments as data, with names and versions."""

from gpusched_env.scenarios.curriculum import Curriculum
from gpusched_env.scenarios.family import Parameter, ScenarioFamily
from gpusched_env.scenarios.files import load_scenario, save_scenario, scenario_from_dict
from gpusched_env.scenarios.registry import FAMILIES, SCENARIOS, get_scenario, list_scenarios, register_scenario
from gpusched_env.scenarios.ring_all_reduce import ring_all_reduce
from gpusched_env.scenarios.scenario import RESULTS_VERSION, Scenario
from gpusched_env.scenarios.seeds import Seeds
from gpusched_env.scenarios.variation import Variation
from gpusched_env.scenarios.workload_spec import WorkloadSpec

__all__ = [
    "FAMILIES", "RESULTS_VERSION", "SCENARIOS", "Curriculum", "Parameter", "Scenario", "ScenarioFamily", "Seeds",
    "Variation", "WorkloadSpec", "get_scenario", "list_scenarios", "load_scenario", "register_scenario",
    "ring_all_reduce", "save_scenario", "scenario_from_dict",
]  # fmt: skip
