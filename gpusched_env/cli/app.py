"""The root of all commands. This module must not import the simulator, so that ``gpusched --help`` answers at once."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from gpusched_env.cli.agents import agents_app
from gpusched_env.cli.building import build
from gpusched_env.cli.contents import describe_cluster, describe_table
from gpusched_env.cli.describing import describe
from gpusched_env.cli.exporting import export
from gpusched_env.cli.fetching import fetch_files, list_files
from gpusched_env.cli.fitting import fit_profiles
from gpusched_env.cli.forecasting import calibration, forecast
from gpusched_env.cli.listing import scenarios_app, schedulers_app, traces_app
from gpusched_env.cli.networking import draw_scenario
from gpusched_env.cli.playing import compare, run
from gpusched_env.cli.pseudonyms import pseudonymise
from gpusched_env.cli.ranking import leaderboard_app
from gpusched_env.cli.recording import dataset
from gpusched_env.cli.reproducing import reproduce
from gpusched_env.cli.tenants import tenants
from gpusched_env.cli.twin import twin_app
from gpusched_env.cli.warming import warmup
from gpusched_env.errors import GpuschedError
from gpusched_env.support.consoles import output_checked, prepare_output, tell_interrupt

USAGE_ERROR = 2  # exit status of invalid input, the same as Typer's for a wrong option


class Root(TyperGroup):
    """A group that reports invalid input, lack of memory and Ctrl-C in one line; other errors show a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except GpuschedError as error:
            raise _exit(str(error), USAGE_ERROR) from error
        except MemoryError as error:
            raise _exit(f"not enough memory ({error}): choose fewer jobs, GPUs or workers", USAGE_ERROR) from error
        except KeyboardInterrupt as stop:  # the text of ``stop`` says which results were kept
            raise typer.Exit(tell_interrupt("gpusched", stop)) from stop


def _exit(text: str, status: int) -> typer.Exit:
    """Print the reason of an exit in one line and return the exit."""
    print(f"gpusched: {' '.join(text.split())}", file=sys.stderr)
    return typer.Exit(status)


app = typer.Typer(
    cls=Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from gpusched_env import __version__

        print(f"gpusched-env {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Schedule jobs on a GPU cluster, in an exact simulator."""


app.command()(run)
app.command()(compare)
app.command()(tenants)
app.command()(export)
app.command()(pseudonymise)
app.command()(reproduce)
app.command()(dataset)
app.command()(warmup)
scenarios_app.command("draw")(draw_scenario)
app.add_typer(scenarios_app, name="scenarios")
app.add_typer(schedulers_app, name="schedulers")
app.add_typer(agents_app, name="agents")
traces_app.command("list")(list_files)
traces_app.command("fetch")(fetch_files)
traces_app.command("describe")(describe)
traces_app.command("cluster")(describe_cluster)
traces_app.command("table")(describe_table)
traces_app.command("fit-profiles")(fit_profiles)
app.add_typer(traces_app, name="traces")
twin_app.command("forecast")(forecast)
twin_app.command("calibration")(calibration)
app.add_typer(twin_app, name="twin")
leaderboard_app.command("build")(build)
app.add_typer(leaderboard_app, name="leaderboard")


def main() -> None:
    """Run the command line."""
    prepare_output()
    with output_checked():
        app(prog_name="gpusched")
