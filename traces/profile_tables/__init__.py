"""Tables of the published throughput of models, and the model profiles that are made from these tables."""

from gpusched_env.traces.profile_tables.efficiency import EfficiencyTable, load_efficiency
from gpusched_env.traces.profile_tables.fitted import FittedTable, load_fitted
from gpusched_env.traces.profile_tables.measured import MeasuredTable, load_measured
from gpusched_env.traces.profile_tables.steps import StepTable, load_steps

__all__ = [
    "EfficiencyTable",
    "FittedTable",
    "MeasuredTable",
    "StepTable",
    "load_efficiency",
    "load_fitted",
    "load_measured",
    "load_steps",
]
