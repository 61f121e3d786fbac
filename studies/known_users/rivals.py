"""The rivals of the study, tuned on its training windows: baselines without run times, and with predictors of them.

``rivals.json`` has the parameters that were found. ``python -m studies.known_users.rivals USERS`` finds them again
(extra ``tuning``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from gpusched_env.baselines import make_scheduler
from gpusched_env.problem.instance import Instance
from gpusched_env.support.commands import run_script
from gpusched_env.support.files import whole
from studies.known_users.windows import REPORTED, list_windows
from studies.unseen_logs.rivals import RIVALS as UNSEEN
from studies.unseen_logs.rivals import Rival, tune
from studies.unseen_logs.scores import score
from studies.unseen_logs.windows import TRAINING

TRIALS: Final = 120  # of a rival at most
SLOW: Final = {"tiresias": 60, "las": 8, "las-2d": 8, "delay-zaharia": 4}  # fewer, of rivals far behind
# Quantiles 0.025, 0.075, ... of the GPU times of the training windows' jobs [GPU s], as past sizes for Gittins indices.
SIZES: Final = "24/48/77/120/186/304/480/782/1320/1860/3150/4980/8330/14600/23900/39400/59200/104000/227000/608000"
NO_HISTORY: Final = "nothing"
# Schedulers that read run times, and the placement that is best of the two with each estimator.
READERS: Final = ("sjf", "srtf", "srsf", "fifo-easy")
PLACEMENT: Final = "consolidate"
# What jobs tell -> estimators that need it. "user" is the limit that doubles when a job passes it.
ESTIMATORS: Final = {
    NO_HISTORY: ("none", "nested"),
    "users": ("nested", "quantile", "recency", "recent-two"),
    "limits": ("nested", "user", "limit"),
}


def without_history() -> Iterator[Rival]:
    """Yield the rivals that read no run times."""
    for rival in UNSEEN:
        if rival.name in ("yarn-cs", "gandiva-lite"):  # several times worse than the others, and slow
            continue
        yield replace(rival, trials=min(rival.trials, SLOW.get(rival.name, TRIALS)))
        if rival.name == "tiresias-g":
            yield replace(rival, name=f"tiresias-g:history={SIZES}", trials=TRIALS)


def specs(told: str) -> dict[str, str]:
    """Return the rivals that need that jobs tell this, a key of ESTIMATORS: names, and specs."""
    text = resources.files(__package__).joinpath("rivals.json").read_text(encoding="utf-8")
    tuned = {name: one["spec"] for name, one in json.loads(text).items()}
    queues = {f"tiresias {estimator}": f"{tuned['tiresias']},estimator={estimator}" for estimator in ESTIMATORS[told]}
    return (
        (tuned if told == NO_HISTORY else {})
        | queues
        | {
            f"{name} {estimator}": f"{name}:estimator={estimator},placement={PLACEMENT}"
            for name in READERS
            for estimator in ESTIMATORS[told]
        }
    )


def mean_jct_s(spec: str, instance: Instance) -> float:
    """Return the mean JCT of the scored jobs of a window [s]."""
    return score(make_scheduler(spec), instance, REPORTED).mean_jct_s


@dataclass
class Settings:
    """Tune the rivals again."""

    users: Annotated[Path, typer.Argument()]
    """Folder of the logs."""
    only: Sequence[str] = ()
    """Names of rivals; the others keep their entries."""
    output: Path = Path(str(resources.files(__package__))) / "rivals.json"
    """File to write."""


def main(options: Settings) -> None:
    """Write ``rivals.json``."""
    known: dict[str, Any] = {}
    if options.output.is_file():
        known = json.loads(options.output.read_text(encoding="utf-8"))
    problems = [window.instance(window.workload(options.users)) for window in list_windows(TRAINING)]
    for rival in without_history():
        if options.only and rival.name.partition(":")[0] not in options.only:
            continue
        begun = time.process_time()
        known[rival.name] = tune(rival, problems, mean_jct_s)
        print(rival.name, known[rival.name], f"{time.process_time() - begun:.0f} CPU s", flush=True)
        with whole(options.output) as partial:
            partial.write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_script(main)
