"""Placement of SJF-BCO and its baselines, by the charge that each GPU has accumulated."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from gpusched_env.cluster import Cluster
from gpusched_env.errors import SchedulerError

POLICIES: Final = ("bco", "ff", "ls", "rand")
SLACK_S: Final = 1e-9  # [s] tolerance for rounding in the comparison with theta


class NoPlaceError(SchedulerError):
    """The limit theta leaves a gang too few GPUs, now and later."""


class Ledger:
    """Choose the GPUs of one gang after another, and add a charge to each of these GPUs.

    Parameters
    ----------
    cluster : the machines
    charged_s : float64 [G], charge U_g of each GPU so far [s]; the array is copied
    policy : "ff" = the lowest GPU ids; "ls" = the least charged GPUs; "rand" = GPUs drawn uniformly; "bco" = like "ls"
        for small gangs (FA-FFP), and the least charged GPUs of the least charged servers for large gangs (LBSGF)
    theta_s : maximum charge of a GPU [s]
    small : maximum size of a small gang [GPU]
    capacity : parameter lambda; LBSGF considers the smallest number of servers whose GPUs are at least lambda times the
        gang size
    generator : random generator for "rand"

    Attributes
    ----------
    charged_s : float64 [G], charge of each GPU, including all gangs placed so far [s]
    binding : whether theta has excluded a GPU; if False, a larger theta would give the same placements

    References
    ----------
    M. Yu, B. Ji, H. Rajan, J. Liu, MobiHoc 2022 (arXiv 2207.07817), algorithms 2 and 3; section 7 for the baselines.
    """

    def __init__(
        self,
        cluster: Cluster,
        charged_s: np.ndarray,
        policy: str = "bco",
        theta_s: float = math.inf,
        small: float = 0.0,
        capacity: float = 1.0,
        generator: np.random.Generator | None = None,
    ) -> None:
        self.charged_s = charged_s.copy()
        self.binding = False
        self.policy, self.theta_s, self.small, self.capacity = policy, theta_s, small, capacity
        self._generator = generator or np.random.default_rng()
        self._first_gpu, self._sizes = cluster.nodes["first_gpu"], cluster.nodes["gpus"]
        self._node_of_gpu = cluster.node_of_gpu

    def place(self, gang: int, charge_s: float, free: np.ndarray, able: np.ndarray | None = None) -> np.ndarray | None:
        """Choose the GPUs of a gang and charge them; None = the gang must wait until other jobs have finished.

        Parameters
        ----------
        gang : gang size [GPU]
        charge_s : charge to add to each of the gang's GPUs [s]
        free : Boolean [G], whether each GPU may be taken now
        able : Boolean [G], whether the type of each GPU can run the gang; None = all can

        Raises
        ------
        NoPlaceError : theta would leave too few GPUs even if all GPUs were free
        """
        allowed = self.charged_s + charge_s <= self.theta_s + SLACK_S
        self.binding |= not allowed.all()
        if able is not None:
            allowed &= able
        if self.policy == "bco" and gang > self.small:
            allowed &= self._least_charged_servers(self.capacity * gang, able)
        if np.count_nonzero(allowed) < gang:
            raise NoPlaceError(
                f"theta = {self.theta_s:g} s leaves no place for a gang of {gang} GPUs: give a larger one"
            )
        candidates = np.flatnonzero(allowed & free)
        if len(candidates) < gang:
            return None
        gpus = self._pick(candidates, gang)
        self.charged_s[gpus] += charge_s
        return gpus

    def _pick(self, candidates: np.ndarray, gang: int) -> np.ndarray:
        if self.policy == "ff":
            return candidates[:gang]
        if self.policy == "rand":
            return self._generator.choice(candidates, gang, replace=False)
        return candidates[np.argsort(self.charged_s[candidates], kind="stable")[:gang]]

    def _least_charged_servers(self, wanted: float, able: np.ndarray | None) -> np.ndarray:
        """Boolean [G]: GPUs of the least charged servers, as few as together have ``wanted`` GPUs, free or not."""
        mean_s = np.add.reduceat(self.charged_s, self._first_gpu) / self._sizes
        order = np.argsort(mean_s, kind="stable")
        sizes = self._sizes if able is None else np.add.reduceat(able, self._first_gpu, dtype=np.int64)
        enough = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
        kept = np.zeros(len(order), bool)
        kept[order[:enough]] = True
        return kept[self._node_of_gpu]
