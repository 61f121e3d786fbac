"""The command line: ``gpusched``. An invalid option raises a GpuschedError, which is told in one line."""

from gpusched_env.cli.app import app, main

__all__ = ["app", "main"]
