"""Measured throughput of published models, as small tables in the package, and the model profiles made from them."""

from gpusched_env.traces.profile_tables.files import TABLES, load_table, read_table, write_table
from gpusched_env.traces.profile_tables.measured import MeasuredModel
from gpusched_env.traces.profile_tables.rule import measured_profiles
from gpusched_env.traces.profile_tables.table import ProfileTable

__all__ = ["TABLES", "MeasuredModel", "ProfileTable", "load_table", "measured_profiles", "read_table", "write_table"]
