"""HTML reports on a user's own runs, and functions that reports share with the site of the leaderboard."""

from gpusched_env.reports.report import write_report

__all__ = ["write_report"]
