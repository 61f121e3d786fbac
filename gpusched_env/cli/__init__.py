"""The command line: ``gpusched``."""

from gpusched_env.cli.app import app, main

__all__ = ["app", "main"]
