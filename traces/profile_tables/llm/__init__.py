"""Gangs that train transformers: seconds of an iteration and memory by plan, from formulas and measured rows."""

from gpusched_env.traces.profile_tables.llm.building import Request, llm_profiles
from gpusched_env.traces.profile_tables.llm.plans import Option, best_plan, find_plans, make_run, plans, refused
from gpusched_env.traces.profile_tables.llm.quantities import Model, models, read_models
from gpusched_env.traces.profile_tables.llm.times import Plan, Run

__all__ = [
    "Model", "Option", "Plan", "Request", "Run", "best_plan", "find_plans", "llm_profiles", "make_run", "models",
    "plans", "read_models", "refused",
]  # fmt: skip
