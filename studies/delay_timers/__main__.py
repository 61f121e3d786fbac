"""Play the contest of the learned tuner over the test cells: ``cells.toml``."""

from __future__ import annotations

import tomllib
from pathlib import Path

from gpusched_env.cli.choosing import Processes
from gpusched_env.support.commands import run_script
from studies.reproduce import Card
from studies.reproduce.command import play_and_show

NAME = "dally-cells"


def card() -> Card:
    """Return the card."""
    return Card(NAME, tomllib.loads(Path(__file__).with_name("cells.toml").read_text(encoding="utf-8")))


def main(processes: Processes, quick: bool = False, output: Path = Path("reproduction") / NAME) -> None:
    """Play the card."""
    play_and_show(card(), output, quick, processes)


if __name__ == "__main__":
    run_script(main)
