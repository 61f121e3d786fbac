"""The weights of a sharing index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from gpusched_env.agents.checkpoints import checkpoint, weights_of, write_checkpoint

FORMAT: Final = "gpusched-sharing-index-1"
# Terms of the score of a waiting job beside a running gang: 1; ln(T_seq / T_con) of Theorem 1 of SJF-BSBF; ln of the
# remaining time of the gang / that of the job; ln of the sizes likewise; ln of how much the job would slow the gang
# down beyond what others do already; ln of the slowdown by the sub-batch that fits; demand of the waiting jobs / (GPUs
# of the cluster + this demand).
TERMS: Final = ("bias", "benefit", "longer", "larger", "slowed", "split", "crowd")


@dataclass(frozen=True)
class SharingRule:
    """The weights of a sharing index. The defaults share by the test of SJF-BSBF.

    Parameters
    ----------
    gang : weight of ln(gang size) in the key of a job, which is ln(remaining time) + this
    weights : of TERMS
    """

    gang: float = 0.0
    weights: tuple[float, ...] = (0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def save(self, path: Path, about: Mapping[str, Any]) -> None:
        """Write the weights as ``.npz``, with ``about`` as metadata."""
        metadata = {"format": FORMAT, "terms": list(TERMS), "about": dict(about)}
        write_checkpoint(path, metadata, {"gang": np.array(self.gang), "weights": np.array(self.weights)})

    @classmethod
    def load(cls, path: Path) -> SharingRule:
        """Read what :meth:`save` wrote."""
        with checkpoint(path, FORMAT, "a sharing index") as (_, stored):
            return cls(float(stored["gang"]), weights_of(stored, TERMS))
