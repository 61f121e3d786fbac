"""The command line: ``gpusched``. Functions raise a GpuschedError, which is told in one line, if an option is invalid."""

from gpusched_env.cli.app import app, main

__all__ = ["app", "main"]
