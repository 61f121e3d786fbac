"""Measured throughput of published models, as small tables in the package, and the model profiles made from them."""

from gpusched_env.traces.profile_tables.fitted_files import FITTED_TABLES, load_fitted, read_fitted, write_fitted
from gpusched_env.traces.profile_tables.fitted_rule import fitted_profiles
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

__all__ = [
    "FITTED_TABLES",
    "MEASURED_TABLES",
    "FittedTable",
    "MeasuredModel",
    "MeasuredTable",
    "fitted_profiles",
    "load_fitted",
    "load_measured",
    "measured_profiles",
    "read_fitted",
    "read_measured",
    "write_fitted",
    "write_measured",
]
