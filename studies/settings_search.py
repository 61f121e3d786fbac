"""Search for settings of the training by Optuna; trials that validate worse than the median are stopped early.

python -m studies.settings_search --recipe steady-64 --trials 30 --output runs/search
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpusched_env.agents.recipes import RECIPES
from gpusched_env.agents.training import TrainingConfig, train
from gpusched_env.errors import GpuschedError, unknown_name
from gpusched_env.support.commands import run_script

if TYPE_CHECKING:
    import optuna

STUDY_FILE: Final = "search.db"
BASE: Final = "settings"  # attribute of a study: the settings that all trials share
FIRST_TRIALS: Final = 5  # without pruning


def suggested(trial: optuna.Trial, config: TrainingConfig) -> TrainingConfig:
    """Return the settings of a trial: learning rate, horizon, clip, passes, and workloads and copies per update."""
    return dataclasses.replace(
        config,
        learning_rate=trial.suggest_float("learning_rate", 1e-4, 1e-2, log=True),
        horizon=trial.suggest_float("horizon", 0.1, 8.0, log=True),
        clip=trial.suggest_float("clip", 0.1, 0.4),
        epochs=trial.suggest_int("epochs", 1, 6),
        workloads=trial.suggest_categorical("workloads", [4, 8, 16]),
        copies=trial.suggest_categorical("copies", [2, 4, 8]),
    )


def search(
    config: TrainingConfig, output: Path, trials: int, said: Callable[[str], None] = lambda line: None
) -> TrainingConfig:
    """Try settings, and return those whose best checkpoint validates best.

    The folder of trial k is ``trial-<k>``. All trials are kept in ``search.db``, so that a later call with the same
    folder continues the search.

    ``trials`` = 0: the best settings of earlier trials.
    """
    if trials < 0:
        raise GpuschedError(f"search: trials is {trials}: it must be at least 0")
    library = optuna_library()
    output.mkdir(parents=True, exist_ok=True)

    def objective(trial: optuna.Trial) -> float:
        scores: list[float] = []

        def judge(number: int, score: float) -> None:
            scores.append(score)
            trial.report(score, number)
            if trial.should_prune():
                raise library.TrialPruned

        train(suggested(trial, config), output / f"trial-{trial.number}", judge=judge)
        return min(scores)

    def tell(study: optuna.Study, trial: optuna.trial.FrozenTrial) -> None:
        result = "stopped early" if trial.state.name == "PRUNED" else f"{config.metric} {trial.value:,.1f}"
        values = ", ".join(f"{name} {value:.3g}" for name, value in trial.params.items())
        said(f"trial {trial.number}: {result} ({values})")

    study = library.create_study(
        study_name=config.scenario,
        storage=f"sqlite:///{output / STUDY_FILE}",
        load_if_exists=True,
        pruner=library.pruners.MedianPruner(n_startup_trials=FIRST_TRIALS, n_warmup_steps=1),
    )
    study.sampler = library.samplers.TPESampler(seed=config.seed + len(study.trials))  # not the same draws again
    base = json.dumps(dataclasses.asdict(config))
    if study.user_attrs.setdefault(BASE, base) != base:
        raise GpuschedError(f"{output}: a search with other settings is in this folder; name another output")
    study.set_user_attr(BASE, base)
    study.optimize(objective, n_trials=trials, callbacks=[tell])
    if not any(trial.state.name == "COMPLETE" for trial in study.trials):
        raise GpuschedError(f"{output}: no trial of the search has finished; search again")
    return suggested(library.trial.FixedTrial(study.best_params), config)


def optuna_library() -> Any:
    """Return the module Optuna, which prints warnings alone."""
    try:
        import optuna
    except ImportError as error:
        raise GpuschedError('a search needs Optuna: pip install "gpusched-env[tuning]"') from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def main(recipe: str = "steady-64", trials: int = 30, output: Path = Path("runs/search")) -> None:
    """Try settings of a recipe, and print the command that trains with the best ones."""
    if recipe not in RECIPES:
        raise GpuschedError(f"--recipe: {unknown_name('recipe', recipe, RECIPES)}")
    config = RECIPES[recipe].training
    found = search(config, output, trials, print)
    changed = {name: value for name, value in vars(found).items() if value != getattr(config, name)}
    print("gpusched train", "--recipe", recipe, *(f"--{key.replace('_', '-')} {new}" for key, new in changed.items()))


if __name__ == "__main__":
    run_script(main)
