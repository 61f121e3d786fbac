"""HTML reports: one file for a user's own runs, and the building blocks of the leaderboard's site."""

from gpusched_env.reports.report import write_report

__all__ = ["write_report"]
