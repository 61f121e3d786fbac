"""The input of a Gavel policy: the jobs in the system, their rates on each GPU type, and scale factors."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Self

import numpy as np


@dataclass(frozen=True)
class Problem:
    """M jobs in the system, in order of arrival, and R GPU types.

    Attributes
    ----------
    rates : float64 [M, R], T_mr: steps/s of the whole gang on that type; 0 = it cannot run there
    gangs : int [M], z_m: GPUs of each job
    gpus : int [R], c_r: GPUs of each type
    weights : float64 [M], w_m: a job is entitled to throughput in proportion to its weight
    rows : int [M], row of each job, which identifies the job in successive problems
    steps_left : float64 [M], R_m: remaining steps
    age_s : float64 [M], t_m: seconds since arrival
    slack_s : float64 [M], seconds to the deadline; inf = none
    prices : float64 [R], price of one GPU for an hour
    reference : column of the GPU type (V100) that represents all types in policies that ignore types
    pairs : int64 [P, 2], positions of two jobs of equal gang size that can share GPUs, ascending by the second
    pair_rates : float64 [P, 2, R], steps/s of each of the two together; 0 = not on this type
    kinds : int [M], kind of each job; jobs of one kind have the same rates, alone and beside any other kind
    """

    rates: np.ndarray
    gangs: np.ndarray
    gpus: np.ndarray
    weights: np.ndarray
    rows: np.ndarray
    steps_left: np.ndarray
    age_s: np.ndarray
    slack_s: np.ndarray
    prices: np.ndarray
    reference: int = 0
    pairs: np.ndarray | None = None
    pair_rates: np.ndarray | None = None
    kinds: np.ndarray | None = None

    @classmethod
    def of(cls, rates: np.ndarray | list[list[float]], gpus: np.ndarray | list[int], **given: Any) -> Self:
        """Build a problem; fields that are not given: one GPU, weight 1, one step, age 0, no deadline, price 1."""
        table = np.asarray(rates, float)
        jobs, types = table.shape
        columns: dict[str, Any] = {
            "gangs": np.ones(jobs, np.int64),
            "weights": np.ones(jobs),
            "rows": np.arange(jobs),
            "steps_left": np.ones(jobs),
            "age_s": np.zeros(jobs),
            "slack_s": np.full(jobs, np.inf),
            "prices": np.ones(types),
        }
        columns |= {name: np.asarray(value, columns[name].dtype) for name, value in given.items()}
        return cls(rates=table, gpus=np.asarray(gpus, np.int64), **columns)

    @property
    def proportional(self) -> np.ndarray:
        """float64 [M], thr_prop: steps/s of a job whose time on each type is proportional to the type's GPUs."""
        shares: np.ndarray = (self.rates * (self.gpus / self.gpus.sum())).sum(axis=1)
        return shares

    @property
    def isolated(self) -> np.ndarray:
        """float64 [M, R], X_iso: an equal share of each type for every job, also on types where it cannot run."""
        shares = self.gpus / len(self.gangs) / self.gangs[:, None]
        return shares / np.maximum(1.0, shares.sum(axis=1, keepdims=True))

    def agnostic(self, everywhere: bool = False) -> Self:
        """Return the problem with a rate of 1 step/s on every type on which a job can run, or ``everywhere``."""
        return dataclasses.replace(self, rates=((self.rates > 0) | everywhere).astype(float))

    def at_reference(self, everywhere: bool = False) -> Self:
        """Return the problem with each job's rate on the reference type (its fastest, if it cannot run) everywhere."""
        like = np.where(self.rates[:, self.reference] > 0, self.rates[:, self.reference], self.rates.max(axis=1))
        return dataclasses.replace(self, rates=like[:, None] * ((self.rates > 0) | everywhere))

    def fairness_scale(self) -> np.ndarray:
        """float64 [M]: z_m / (w_m thr_prop(m)), by which max-min fairness scales throughputs."""
        return self.gangs / (self.weights * self.proportional)
