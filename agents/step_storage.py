"""Where the steps of an update lie: updates read what the policy read in play."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from gpusched_env.agents.episodes import Episodes
from gpusched_env.agents.tokens import Layout

_FIRST: Final = 4096  # [step] capacity at first


class StepStorage:
    """Inputs and masks of the steps of an update, in the order in which they were played.

    Zero-copy: each step is written once, from the buffers into which the environments write, and the policy and the
    update read it where it lies. Arrays that share an input pass through a small buffer. The next update uses the same
    memory; it grows, and steps are copied, only in an update with more steps than all updates before.
    """

    def __init__(self) -> None:
        self.inputs: dict[str, torch.Tensor] = {}
        self.masks = torch.empty(0, 0, dtype=torch.bool)
        self.count = 0

    def begin(self, layout: Layout, episodes: Episodes) -> None:
        """Forget all steps; the next ones are those of these episodes.

        Parameters
        ----------
        layout : of the network, made for the observations of these episodes
        """
        self._shown_masks = episodes.masks
        self._shown = {
            name: [part.numpy() for part in parts]
            for name, parts in layout.parts(
                {name: torch.from_numpy(array) for name, array in episodes.observations.items()}
            ).items()
        }
        self.count = 0
        shapes = {name: (*parts[0].shape[1:-1], sum(p.shape[-1] for p in parts)) for name, parts in self._shown.items()}
        if shapes != {name: array.shape[1:] for name, array in self.inputs.items()}:
            self.inputs = {name: torch.empty(0, *shape) for name, shape in shapes.items()}
            self.masks = torch.empty(0, self._shown_masks.shape[1], dtype=torch.bool)
        self._find_targets()

    def write(self, rows: np.ndarray) -> slice:
        """Write what these episodes show, and return the new steps."""
        steps = slice(self.count, self.count + len(rows))
        while steps.stop > len(self.masks):
            self._grow()
        for shown, target in self._targets:
            np.take(shown, rows, axis=0, out=target[steps], mode="clip")  # other modes write to a buffer first
        self.count = steps.stop
        return steps

    def _grow(self) -> None:
        capacity = max(_FIRST, 2 * len(self.masks))
        self.inputs = {name: self._grown(array, capacity) for name, array in self.inputs.items()}
        self.masks = self._grown(self.masks, capacity)
        self._find_targets()

    def _grown(self, array: torch.Tensor, capacity: int) -> torch.Tensor:
        grown = array.new_empty(capacity, *array.shape[1:])
        grown[: self.count] = array[: self.count]
        return grown

    def _find_targets(self) -> None:
        """Find the place of each array that is shown: some columns of an input."""
        self._targets = [(self._shown_masks, self.masks.numpy())]
        for name, parts in self._shown.items():
            ends = np.cumsum([part.shape[-1] for part in parts])
            places = np.split(self.inputs[name].numpy(), ends[:-1], axis=-1)
            self._targets += zip(parts, places, strict=True)
