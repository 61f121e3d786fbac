"""Evaluation: run schedulers on scenarios and seeds, compare their results, and save the results."""

from gpusched_env.evaluation.plots import plot_runs
from gpusched_env.evaluation.results import Results, RunResult, read_json, write_csv, write_json
from gpusched_env.evaluation.runner import Interrupted, evaluate
from gpusched_env.evaluation.tables import by_scheduler, comparison_table, print_comparison

__all__ = [
    "Interrupted", "Results", "RunResult", "by_scheduler", "comparison_table", "evaluate", "plot_runs",
    "print_comparison", "read_json", "write_csv", "write_json",
]  # fmt: skip
