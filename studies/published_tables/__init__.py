"""Published tables that do not list jobs: measured times, time series, summaries, results."""

from studies.published_tables.reading import LAYOUTS, Table, read_layers, read_table

__all__ = ["LAYOUTS", "Table", "read_layers", "read_table"]
