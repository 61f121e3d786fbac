"""Tables of the published throughput of models, and the model profiles that are made from these tables."""

from gpusched_env.traces.profile_tables.dimension_links import DIMENSION_LINKS, DimensionLinks
from gpusched_env.traces.profile_tables.efficiency_files import (
    EFFICIENCY_TABLES,
    load_efficiency,
    read_efficiency,
    write_efficiency,
)
from gpusched_env.traces.profile_tables.efficiency_rule import EFFICIENCY_RULES, efficiency_profiles
from gpusched_env.traces.profile_tables.efficiency_table import EfficiencyTable, ShapedModel
from gpusched_env.traces.profile_tables.fitted_files import FITTED_TABLES, load_fitted, read_fitted, write_fitted
from gpusched_env.traces.profile_tables.fitted_rule import computed_profiles, fitted_profiles
from gpusched_env.traces.profile_tables.fitted_table import FittedTable
from gpusched_env.traces.profile_tables.measured_files import (
    MEASURED_TABLES,
    load_measured,
    read_measured,
    write_measured,
)
from gpusched_env.traces.profile_tables.measured_model import MeasuredModel
from gpusched_env.traces.profile_tables.measured_rule import measured_profiles
from gpusched_env.traces.profile_tables.measured_table import MeasuredTable
from gpusched_env.traces.profile_tables.step_times import STEP_TABLES, StepTable, load_steps, read_steps, write_steps

__all__ = [
    "DIMENSION_LINKS",
    "EFFICIENCY_RULES",
    "EFFICIENCY_TABLES",
    "FITTED_TABLES",
    "MEASURED_TABLES",
    "STEP_TABLES",
    "DimensionLinks",
    "EfficiencyTable",
    "FittedTable",
    "MeasuredModel",
    "MeasuredTable",
    "ShapedModel",
    "StepTable",
    "computed_profiles",
    "efficiency_profiles",
    "fitted_profiles",
    "load_efficiency",
    "load_fitted",
    "load_measured",
    "load_steps",
    "measured_profiles",
    "read_efficiency",
    "read_fitted",
    "read_measured",
    "read_steps",
    "write_efficiency",
    "write_fitted",
    "write_measured",
    "write_steps",
]
