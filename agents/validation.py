"""Validation of a training run: play the validation seeds at regular intervals, and keep the best network."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch

from gpusched_env.agents.evaluation import evaluate_policy
from gpusched_env.agents.learned import CLONED, CONFIG_FILE, INITIAL, MODEL, LearnedScheduler
from gpusched_env.evaluation.tables import metric_words
from gpusched_env.metrics import COLUMN_OF
from gpusched_env.scenarios import Scenario
from gpusched_env.support.files import whole, write_whole

if TYPE_CHECKING:
    from gpusched_env.agents.training import TrainingConfig

Progress = Callable[[int, int, str], None]
Judge = Callable[[int, float], None]
LEARNING_FILE: Final = "learning.csv"
# The metric that a reward component improves; validation chooses by it. A user's own component: mean JCT.
METRIC_OF: Final = {
    "jct": "mean_jct_s",
    "slowdown": "mean_slowdown",
    "makespan": "makespan_s",
    "fairness": "rho_mean",
    "deadlines": "deadlines_met",
}


class Validation:
    """Report progress; play the validation seeds at the beginning and at regular intervals; keep the best network.

    ``progress`` gets (steps done, total steps, latest result as text); ``judge`` gets (number of the validation, its
    result), and may raise an error to end the training.
    """

    def __init__(
        self,
        config: TrainingConfig,
        scenario: Scenario,
        output: Path,
        record: dict[str, Any],
        progress: Progress | None,
        judge: Judge | None = None,
    ) -> None:
        self.config, self.scenario, self.output, self.progress = config, scenario, output, progress
        self._judge = judge
        self.model_file = output / f"{MODEL}.npz"
        self._about = record
        self._record = json.dumps(record, indent=2)
        self._best, self._best_steps, self._steps = np.inf, -1, 0  # -1 = none is kept yet
        self._lines = [f"steps,validation_{config.metric},kept"]
        self._firsts: dict[str, bytes] = {}  # content of the first networks' files, by the stem of the name
        self._said = ""
        self._due = config.steps / config.validations
        first = scenario.seeds.validation[0]
        self._seeds = range(first, first + config.validation_seeds)

    def begin(self, save: Callable[[Path, dict[str, Any]], None]) -> None:
        """Play the validation seeds with the initial network; training draws the same random numbers as without.

        Parameters
        ----------
        save : writes the current network, with its provenance, to a path
        """
        self._save = save
        with torch.random.fork_rng(devices=()), self._candidate() as (model, config):
            self._firsts[INITIAL] = model.read_bytes()
            self._note("initial", self._score(model, config), kept=False)
        self.told(0)

    def cloned(self) -> None:
        """Play the validation seeds with the network that has imitated the teacher, the first candidate."""
        self._check("cloned", CLONED)
        self.told(0)

    def after(self, steps: int) -> bool:
        """Validate if this is due after so many steps; return whether it was."""
        self._steps = steps
        if is_due := steps >= self._due:
            self._due += self.config.steps / self.config.validations
            self._check()
        self.told(steps)
        return is_due

    def end(self) -> None:
        """Validate the last network if the last call of :meth:`after` did not."""
        if self._lines[-1].split(",")[0] != str(self._steps):
            self._check()
            self.told(self._steps)

    def told(self, steps: int) -> None:
        """Report progress."""
        if self.progress is not None:
            self.progress(min(steps, self.config.steps), self.config.steps, self._said)

    def state(self) -> dict[str, Any]:
        """Return everything that :meth:`restore` needs, as plain values."""
        return {name: getattr(self, name) for name in ("_best", "_best_steps", "_steps", "_lines", "_firsts", "_due")}

    def restore(self, state: Mapping[str, Any], save: Callable[[Path, dict[str, Any]], None]) -> None:
        """Continue after the validation that a state was saved after; ``save`` is that of :meth:`begin`."""
        self._save = save
        self.__dict__.update(state)
        self.told(self._steps)

    def _check(self, label: str = "validation", stem: str = "") -> None:
        """Play the validation seeds; keep the model if it is the best so far, or as ``stem``."""
        with torch.random.fork_rng(devices=()), self._candidate() as (model, config):
            if stem:
                self._firsts[stem] = model.read_bytes()
            score = self._score(model, config)
            kept = score < self._best or self._best_steps < 0
            self._note(label, score, kept)
            if kept:
                for name in (INITIAL, CLONED):
                    first = self.model_file.with_stem(name)
                    if name in self._firsts:
                        with whole(first) as partial:
                            partial.write_bytes(self._firsts[name])
                    else:
                        first.unlink(missing_ok=True)  # of an earlier run in this folder
                config.replace(self.output / CONFIG_FILE)
                model.replace(self.model_file)
                self._best, self._best_steps = score, self._steps
            write_whole(self.output / LEARNING_FILE, "\n".join(self._lines) + "\n")
        if self._judge is not None:
            self._judge(len(self._lines) - 2, score)

    @contextlib.contextmanager
    def _candidate(self) -> Iterator[tuple[Path, Path]]:
        """Save the model and its configuration beside those that are kept; remove what is not moved."""
        model, config = (self.output / f"candidate-{name}" for name in (self.model_file.name, CONFIG_FILE))
        try:
            write_whole(config, self._record)
            self._save(model, self._about)
            yield model, config
        finally:
            for path in (model, config):
                path.unlink(missing_ok=True)

    def _score(self, model: Path, config: Path) -> float:
        """Return the mean of the metric over the validation seeds, inf = undefined; its negative if more is better."""
        agent = LearnedScheduler(str(model), config=str(config))
        results = evaluate_policy(agent, self.scenario, self._seeds)
        mean = float(np.mean([result.metrics[self.config.metric] for result in results]))
        return np.inf if np.isnan(mean) else -mean if COLUMN_OF[self.config.metric].better == "max" else mean

    def _note(self, label: str, score: float, kept: bool) -> None:
        self._lines.append(f"{self._steps},{abs(score):.3f},{int(kept)}")
        self._said = f"{label} {self._in_words(score)}"

    def _in_words(self, score: float) -> str:
        metric = self.config.metric
        words = metric_words(metric)
        return f"{words} {score / 3600:.2f} h" if metric.endswith("_s") else f"{words} {abs(score):.3f}"

    def kept(self) -> str:
        """Describe what an interrupted call has left in the folder."""
        if self._best_steps < 0:
            first = round(self.config.steps / self.config.validations)
            return f"no checkpoint was validated yet, so nothing was written (the first is due at step {first:,})"
        found = f"of step {self._best_steps:,}, validation {self._in_words(self._best)}"
        return f"{self.model_file} is the best checkpoint so far, {found}"
