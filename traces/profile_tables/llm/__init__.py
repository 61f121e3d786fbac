"""Gangs that train transformers: seconds of an iteration and memory by plan, from formulas and measured rows."""

from gpusched_env.traces.profile_tables.llm.building import Request, llm_profiles
from gpusched_env.traces.profile_tables.llm.plans import Option, best_plan, find_plans, make_run, plans, refused
from gpusched_env.traces.profile_tables.llm.quantities import Model, find_model, known_models
from gpusched_env.traces.profile_tables.llm.times import Plan, Run

__all__ = [
    "Model", "Option", "Plan", "Request", "Run", "best_plan", "find_model", "find_plans", "known_models",
    "llm_profiles", "make_run", "plans", "refused",
]  # fmt: skip
