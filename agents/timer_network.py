"""A small network in NumPy that sets delay timers, and its file format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint, write_checkpoint
from gpusched_env.delay_timers.actions import DEMAND_CLASSES
from gpusched_env.delay_timers.columns import CLASS_COLUMNS, CLUSTER_COLUMNS, COST_COLUMNS
from gpusched_env.errors import GpuschedError, SchedulerError

FORMAT: Final = "gpusched-delay-tuner-1"
INPUTS: Final = len(CLASS_COLUMNS) + len(CLUSTER_COLUMNS)
_DECIMALS: Final = 6  # decimals of an action, by which a timer is exact to one part in 100,000


@dataclass
class TimerNetwork:
    """A network that maps observations to actions [D, 2], with weights shared by the demand classes.

    The action of a class depends on its own columns and those of the cluster, so the number of classes may change.

    Parameters
    ----------
    layers : (weights float64 [inputs, outputs], biases float64 [outputs]) of each layer; tanh between layers
    residual : True = actions multiply the hand tuner's timers
    costs : True = the costs of placements are inputs, too, after the columns of the cluster
    """

    layers: Sequence[tuple[np.ndarray, np.ndarray]]
    classes: Sequence[int] = DEMAND_CLASSES
    residual: bool = False
    interval_s: float = 1_800.0
    about: Mapping[str, Any] = field(default_factory=dict)
    costs: bool = False

    def __post_init__(self) -> None:
        """Check shapes and that all weights are finite."""
        self.layers = [(np.asarray(w, np.float64), np.asarray(b, np.float64)) for w, b in self.layers]
        width = inputs_of(self.costs)
        for weights, biases in self.layers:
            if weights.shape != (width, len(biases)):
                raise GpuschedError(
                    f"layer of shape {weights.shape}: it must have {width} inputs and {len(biases)} outputs"
                )
            if not (np.isfinite(weights).all() and np.isfinite(biases).all()):
                raise GpuschedError("a weight of the network is not finite")
            width = len(biases)
        if width != 2:
            raise GpuschedError(
                f"the network gives {width} numbers per class: it must give 2, a rack and a network timer"
            )

    def act(self, observation: Mapping[str, np.ndarray]) -> np.ndarray:
        """float64 [D, 2]: action for an observation of ``gpusched/DelayTimers-v0``."""
        values = self.forward(joined(observation, self.costs))
        # Linear algebra libraries differ in the last bits; rounding keeps schedules equal.
        return np.round(np.clip(values, -1.0, 1.0), _DECIMALS)

    def forward(self, values: np.ndarray) -> np.ndarray:
        """float64 [D, 2]: outputs of the last layer for inputs [D, inputs]."""
        for number, (weights, biases) in enumerate(self.layers):
            if number:
                values = np.tanh(values)
            values = values @ weights + biases
        return values

    # --- a flat vector, for evolution

    @property
    def vector(self) -> np.ndarray:
        """float64: all weights and biases."""
        return np.concatenate([part.ravel() for layer in self.layers for part in layer])

    def with_vector(self, vector: np.ndarray) -> TimerNetwork:
        """Return the same network with other weights."""
        layers, at = [], 0
        for weights, biases in self.layers:
            parts = []
            for old in (weights, biases):
                parts.append(vector[at : at + old.size].reshape(old.shape))
                at += old.size
            layers.append((parts[0], parts[1]))
        return TimerNetwork(layers, self.classes, self.residual, self.interval_s, self.about, self.costs)

    @classmethod
    def constant(cls, action: Sequence[float], **options: Any) -> Self:
        """Return a linear network that always gives the same pair of numbers for every class."""
        inputs = inputs_of(options.get("costs", False))
        return cls([(np.zeros((inputs, 2)), np.asarray(action, float))], **options)

    # --- files

    def save(self, path: Path) -> None:
        """Write weights and metadata as ``.npz``: only arrays and JSON, so that reading it runs no code."""
        metadata = {
            "format": FORMAT,
            "class_columns": [column.name for column in CLASS_COLUMNS],
            "cluster_columns": [column.name for column in CLUSTER_COLUMNS],
            "classes": list(self.classes),
            "residual": self.residual,
            "interval_s": self.interval_s,
            "about": dict(self.about),
        }
        if self.costs:
            metadata["cost_columns"] = [column.name for column in COST_COLUMNS]
        arrays: dict[str, np.ndarray] = {}
        for number, (weights, biases) in enumerate(self.layers):
            arrays[f"weights_{number}"], arrays[f"biases_{number}"] = weights, biases
        write_checkpoint(path, metadata, arrays)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file that :meth:`save` wrote."""
        with checkpoint(path, FORMAT, "a delay tuner") as (metadata, arrays):
            numbers = range(len(arrays) // 2)
            layers = [(arrays[f"weights_{number}"], arrays[f"biases_{number}"]) for number in numbers]
            costs = "cost_columns" in metadata
            known = {"class_columns": CLASS_COLUMNS, "cluster_columns": CLUSTER_COLUMNS}
            known |= {"cost_columns": COST_COLUMNS} if costs else {}
            if any(metadata[name] != [column.name for column in columns] for name, columns in known.items()):
                raise SchedulerError(f"{path}: it was trained on other observations; train it again with this version")
            about = metadata["about"]
            return cls(layers, metadata["classes"], metadata["residual"], metadata["interval_s"], about, costs)

    def digest(self) -> str:
        """Return the SHA-256 of the weights."""
        return hashlib.sha256(np.ascontiguousarray(self.vector).tobytes()).hexdigest()


def inputs_of(costs: bool) -> int:
    """Return the number of inputs of a network."""
    return INPUTS + len(COST_COLUMNS) * costs


def joined(observation: Mapping[str, np.ndarray], costs: bool) -> np.ndarray:
    """float64 [D, inputs]: inputs of the network for each class."""
    classes, cluster = (np.asarray(observation[key], np.float64) for key in ("classes", "cluster"))
    parts = [classes, np.broadcast_to(cluster, (len(classes), len(cluster)))]
    if costs:
        parts.append(np.asarray(observation["costs"], np.float64))
    return np.concatenate(parts, axis=1)


def input_names(costs: bool) -> list[str]:
    """Return the names of the inputs; those of the cluster's columns that a class has, too, begin with ``cluster``."""
    own = [column.name for column in CLASS_COLUMNS]
    cluster = [f"cluster {column.name}" if column.name in own else column.name for column in CLUSTER_COLUMNS]
    return [*own, *cluster, *(column.name for column in COST_COLUMNS if costs)]
