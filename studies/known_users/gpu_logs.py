"""The agent beside its former self on logs of GPU clusters without users: the windows of ``studies/unseen_logs``.

``python -m studies.known_users.gpu_logs LOGS`` prints mean and p99 JCT of ``learned`` / those of the agent without
predictors that it replaced, whose scores are in ``gpu_logs.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import typer

from gpusched_env.baselines import make_scheduler
from gpusched_env.support.commands import run_script
from gpusched_env.support.consoles import console, plain_table
from gpusched_env.support.files import write_whole
from studies.unseen_logs.scores import Score, by_log, ratio, score
from studies.unseen_logs.windows import list_windows

LARGEST: Final = 32  # nodes of the largest cluster


@dataclass
class Settings:
    """Compare an agent with the one before it."""

    logs: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    use: Literal["training", "test"] = "training"
    """Windows to play."""
    agent: str = "learned"
    """Spec."""
    record: bool = False
    """Write the scores as those of the agent before; the former ones are lost."""


def main(settings: Settings) -> None:
    """Play and print."""
    file = Path(str(resources.files(__package__))) / "gpu_logs.json"
    before = msgspec.json.decode(file.read_bytes(), type=dict[str, Score]) if file.is_file() else {}
    windows = [window for window in list_windows(settings.use) if window.nodes <= LARGEST]
    now = {window.name: score(make_scheduler(settings.agent), window.instance(settings.logs)) for window in windows}
    if settings.record:
        before |= now
        lines = (f'"{name}": {msgspec.json.encode(one).decode()}' for name, one in before.items())
        write_whole(file, "{\n" + ",\n".join(lines) + "\n}\n")
    table = plain_table("log", "windows", "mean JCT / before", "p99 JCT / before", texts=1)
    for log, names in by_log(windows).items():
        cells = (ratio([now], before, names, one) for one in ("mean_jct_s", "p99_jct_s"))
        table.add_row(log, str(len(names)), *(f"{mean:.3f} [{low:.3f}, {high:.3f}]" for mean, low, high in cells))
    console().print(table)


if __name__ == "__main__":
    run_script(main)
