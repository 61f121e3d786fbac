"""A trained tuner that sets the timers of a delay scheduler during a run: a small network in NumPy, and its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint, write_checkpoint
from gpusched_env.delay_timers.actions import DEMAND_CLASSES, TimerActions
from gpusched_env.delay_timers.columns import CLASS_COLUMNS, CLUSTER_COLUMNS, COST_COLUMNS
from gpusched_env.delay_timers.observer import TimerObserver
from gpusched_env.errors import GpuschedError, SchedulerError

if TYPE_CHECKING:
    from gpusched_env.baselines.dally.run import DelayRun

FORMAT: Final = "gpusched-delay-tuner-2"
SHIPPED: Final = "delay_tuner.npz"
INPUTS: Final = (
    *(column.name for column in CLASS_COLUMNS),
    *(f"cluster {column.name}" for column in CLUSTER_COLUMNS),
    *(column.name for column in COST_COLUMNS),
)
_DECIMALS: Final = 6  # decimals of an action, by which a timer is exact to one part in 100,000


@dataclass
class TimerNetwork:
    """A network that maps observations to actions [D, 2], with weights shared by the demand classes.

    The action of a class depends on its own columns and those of the cluster, so the number of classes may change.

    Parameters
    ----------
    layers : (weights float64 [inputs, outputs], biases float64 [outputs]) of each layer; tanh between layers
    classes : [GPU] largest demand of each class but the last
    interval_s : time between two actions [s]
    about : provenance
    """

    layers: Sequence[tuple[np.ndarray, np.ndarray]]
    classes: Sequence[int] = DEMAND_CLASSES
    interval_s: float = 1_800.0
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the shapes."""
        width = len(INPUTS)
        for weights, biases in self.layers:
            if weights.shape != (width, len(biases)):
                raise GpuschedError(
                    f"layer of shape {weights.shape}: it must have {width} inputs and {len(biases)} outputs"
                )
            width = len(biases)
        if width != 2:
            raise GpuschedError(
                f"the network gives {width} numbers per class: it must give 2, a rack and a network timer"
            )

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """float64 [D, 2]: action for an observation of ``gpusched/DelayTimers-v0`` with costs."""
        return self.actions(joined(observation))

    def actions(self, values: np.ndarray) -> np.ndarray:
        """float64 [..., 2]: actions for inputs [..., INPUTS]."""
        for number, (weights, biases) in enumerate(self.layers):
            if number:
                values = np.tanh(values)
            values = values @ weights + biases
        # Linear algebra libraries differ in the last bits; rounding keeps schedules equal.
        return np.round(np.clip(values, -1.0, 1.0), _DECIMALS)

    def save(self, path: Path) -> None:
        """Write weights and metadata as ``.npz``: only arrays and JSON, so that reading it runs no code."""
        metadata = {
            "format": FORMAT,
            "inputs": list(INPUTS),
            "classes": list(self.classes),
            "interval_s": self.interval_s,
            "about": dict(self.about),
        }
        arrays: dict[str, np.ndarray] = {}
        for number, (weights, biases) in enumerate(self.layers):
            arrays[f"weights_{number}"], arrays[f"biases_{number}"] = weights, biases
        write_checkpoint(path, metadata, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that :meth:`save` wrote."""
        with checkpoint(path, FORMAT, "a delay tuner") as (metadata, arrays):
            if metadata["inputs"] != list(INPUTS):
                raise SchedulerError(f"{path}: it was trained on other observations; train it again with this version")
            layers = [(arrays[f"weights_{number}"], arrays[f"biases_{number}"]) for number in range(len(arrays) // 2)]
            return cls(layers, metadata["classes"], metadata["interval_s"], metadata["about"])


def joined(observation: Mapping[str, np.ndarray]) -> np.ndarray:
    """float64 [D, INPUTS]: inputs of the network for each class."""
    classes, cluster, costs = (np.asarray(observation[key], np.float64) for key in ("classes", "cluster", "costs"))
    return np.concatenate([classes, np.broadcast_to(cluster, (len(classes), len(cluster))), costs], axis=1)


class LearnedTimers:
    """Set the timers by a network, once every tuning interval."""

    by_hand = False

    def __init__(self, network: TimerNetwork) -> None:
        self.network = network
        self.interval_s = network.interval_s

    @classmethod
    def load(cls, path: str = "") -> Self:
        """Read a tuner's file; an empty path means the tuner of the package."""
        return cls(TimerNetwork.load(Path(path) if path else shipped()))

    def begin(self, run: DelayRun) -> None:
        """Set the timers before the first event."""
        self._actions = TimerActions(run.simulation.instance.cluster, self.network.classes)
        self._observer = TimerObserver(run.simulation, self._actions, self.interval_s, costs=True)
        self.tune(run)

    def tune(self, run: DelayRun) -> None:
        """Set the timers for the next interval."""
        observation = self._observer.observe(run.waits_s, run.simulation.now_s)
        self._actions.carry_out(self.network.act(observation), run)


def shipped() -> Path:
    """Return the path of the tuner that the package contains."""
    return Path(str(files("gpusched_env.agents"))) / SHIPPED
