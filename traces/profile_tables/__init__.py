"""Measured throughput of published models, as small tables in the package, and the model profiles made from them."""

from gpusched_env.traces.profile_tables.elastic import ElasticTable
from gpusched_env.traces.profile_tables.elastic_files import ELASTIC_TABLES, load_elastic, read_elastic, write_elastic
from gpusched_env.traces.profile_tables.elastic_rule import fitted_profiles
from gpusched_env.traces.profile_tables.files import TABLES, load_table, read_table, write_table
from gpusched_env.traces.profile_tables.measured import MeasuredModel
from gpusched_env.traces.profile_tables.rule import measured_profiles
from gpusched_env.traces.profile_tables.table import ProfileTable

__all__ = [
    "ELASTIC_TABLES",
    "TABLES",
    "ElasticTable",
    "MeasuredModel",
    "ProfileTable",
    "fitted_profiles",
    "load_elastic",
    "load_table",
    "measured_profiles",
    "read_elastic",
    "read_table",
    "write_elastic",
    "write_table",
]
