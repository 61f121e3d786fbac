"""References: interference rules of published schedulers and simulators that know no links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def shares_a_server(gpus_on: Array) -> Array:
    """bool [J]: the gang spans servers, and one of them hosts another gang that spans servers (Pollux).

    Parameters
    ----------
    gpus_on : int [J, S], GPUs of each running gang on each server

    References
    ----------
    OSDI 2021; petuum/adaptdl, branch osdi21-artifact, simulator/simulator.py.
    """
    spans = (gpus_on > 0).sum(axis=1) > 1
    spanning = (gpus_on > 0) & spans[:, None]
    return (spanning & (spanning.sum(axis=0) > 1)).any(axis=1)


def flat_goodput_factor(gpus_on: Array, loss: float) -> Array:
    """float64 [J]: 1 - loss for a gang that shares a server, else 1;
    the study of Pollux has losses of 0, 0.25 and 0.5.
    """
    return np.where(shares_a_server(gpus_on), 1.0 - loss, 1.0)


def pairwise_ratios(gpus_on: Array, name: Array, matrix: Array) -> Array:
    """float64 [J]: throughput of each gang / its throughput without neighbours (deepshare, scheduler/cluster_env.py).

    It is the smallest ratio over all neighbours, not the product of the ratios. A neighbour is another gang that uses
    one of the gang's servers. A gang that is on one server is not slowed down, and does not slow others down.

    ``gpus_on`` : int [J, S], GPUs of each running gang on each server; ``name`` : int [J], its row in ``matrix``.
    """
    on = gpus_on > 0
    on &= on.sum(axis=1, keepdims=True) > 1
    neighbours = (on[:, None, :] & on[None, :, :]).any(axis=2) & ~np.eye(len(on), dtype=bool)
    return np.where(neighbours, matrix[np.ix_(name, name)], 1.0).min(axis=1, initial=1.0)


def part_time_slowdown(slowdown: Array | float, share: Array | float) -> Array | float:
    """1 + share (s - 1): the slowdown s holds for a share of the time only.

    The share is the probability that other gangs communicate at the same time (duty cycle), or 1 - score of a time
    shift.
    """
    return 1.0 + share * (slowdown - 1.0)


def straddling(placed: Sequence[Sequence[int]]) -> list[int]:
    """p_j (SJF-BCO, eq. 6): the most gangs that have a part of their GPUs on one server, over the servers of gang j.

    Gang j counts, too. 0 = the gang is on one server.

    Parameters
    ----------
    placed : GPUs of each running gang on each server
    """
    parts = [[0 < count < sum(gang) for count in gang] for gang in placed]
    crowd = [sum(gang[server] for gang in parts) for server in range(len(placed[0]))]
    return [max((crowd[server] for server, part in enumerate(gang) if part), default=0) for gang in parts]


def degradation(contenders: Array | float, alpha: float = 0.2) -> Any:
    """f(k) = k + alpha (k - 1), the example of SJF-BCO, section 4.1."""
    return contenders + alpha * (contenders - 1.0)
