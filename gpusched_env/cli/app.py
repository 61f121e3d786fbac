"""The root of all commands. This module must not import the simulator, so that ``gpusched --help`` answers at once."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from gpusched_env import __version__
from gpusched_env.cli.agents import agents_app
from gpusched_env.cli.describing import describe, describe_cluster
from gpusched_env.cli.fetching import fetch_files, list_files, show_file
from gpusched_env.cli.forecasting import forecast
from gpusched_env.cli.listing import scenarios_app, schedulers_app, traces_app
from gpusched_env.cli.models import models_app
from gpusched_env.cli.playing import compare, export, run
from gpusched_env.cli.predicting import predict
from gpusched_env.cli.pseudonyms import pseudonymise
from gpusched_env.cli.ranking import leaderboard_app
from gpusched_env.cli.reproducing import reproduce
from gpusched_env.cli.tenants import tenants
from gpusched_env.cli.training import Train, train
from gpusched_env.cli.twin import twin_app
from gpusched_env.cli.warming import warmup
from gpusched_env.support.commands import Commands
from gpusched_env.support.consoles import output_checked, prepare_output

app = Commands("Schedule jobs on a GPU cluster, in an exact simulator.")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"gpusched-env {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Schedule jobs on a GPU cluster, in an exact simulator."""


app.add("run", tables=True)(run)
app.add("compare", tables=True)(compare)
app.add("predict", tables=True)(predict)
app.add("train", cls=Train)(train)
app.add("reproduce", tables=True)(reproduce)
app.add("warmup")(warmup)
scenarios_app.add("tenants", tables=True)(tenants)
traces_app.add("list", tables=True)(list_files)
traces_app.add("show")(show_file)
traces_app.add("fetch")(fetch_files)
traces_app.add("describe", tables=True)(describe)
traces_app.add("cluster", tables=True)(describe_cluster)
traces_app.add("export")(export)
traces_app.add("pseudonymise")(pseudonymise)
twin_app.add("forecast", tables=True)(forecast)
app.add_typer(scenarios_app, name="scenarios")
app.add_typer(schedulers_app, name="schedulers")
app.add_typer(agents_app, name="agents")
app.add_typer(traces_app, name="traces")
app.add_typer(models_app, name="models")
app.add_typer(twin_app, name="twin")
app.add_typer(leaderboard_app, name="leaderboard")


def main(command: str = "") -> None:
    """Run the command line, or one command of it alone: ``train.py`` is ``gpusched train``."""
    prepare_output()
    with output_checked():
        root: Any = typer.main.get_command(app)
        if command:
            root.commands[command].main(prog_name=f"{command}.py")
        root.main(prog_name="gpusched")
