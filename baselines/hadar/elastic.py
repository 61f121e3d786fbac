"""Elastic Hadar: in a round, each job buys the number of GPUs with the largest payoff at the prices of the round."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpusched_env.baselines.hadar.search import Round


def grant_sizes(question: Round, options: Sequence[np.ndarray], work_conserving: bool) -> None:
    """Grant each job, in order, the size and placement with the largest positive payoff. Ties: the smaller size.

    ``options`` : for each job, ASKING_DTYPE [sizes], as it would ask for each of its sizes, ascending. A job with
    several sizes pays for each GPU its own price, else whole nodes would be as cheap as single GPUs.
    ``work_conserving`` : GPUs that nobody buys are given: to jobs without GPUs the smallest size, then to others for
    speed.
    """
    jobs = range(len(question.jobs))
    for i in jobs:
        _grant(question, i, options[i], priced=True)
    if not work_conserving:
        return
    for i in jobs:
        for option in options[i]:
            if question.counts[i].any():
                break
            _grant(question, i, np.array([option]), priced=False)
    for i in jobs:
        if question.free.any() and len(options[i]) > 1 and question.counts[i].any():
            question.free += question.counts[i]
            larger = options[i][options[i]["gpus"] >= question.counts[i].sum()]
            _grant(question, i, larger, priced=False)


def _grant(question: Round, i: int, options: np.ndarray, priced: bool) -> None:
    """Grant a job without GPUs the best of some options; none if no payoff is positive."""
    best, granted, job = 0.0, np.zeros_like(question.free), options[0]
    for option in options:
        if option["gpus"] > question.free.sum():
            break
        question.jobs[i] = option
        payoff, counts = question.find(i, question.free, priced)
        if priced and len(options) > 1 and payoff > 0:
            payoff -= _extra_price(question, i, counts)
        if payoff > best:
            best, granted, job = payoff, counts, question.jobs[i].copy()
    question.jobs[i] = job
    question.jobs["payoff"][i] = best
    question.counts[i] = granted
    question.free -= granted


def _extra_price(question: Round, i: int, counts: np.ndarray) -> float:
    """Return what a job pays until its end if each GPU has its own price, beyond that of the first one on each node."""
    rounds = math.ceil(question.jobs["remaining"][i] / question.jobs["rate"][i] / question.round_s)
    extra = 0.0
    for node in np.flatnonzero(counts).tolist():
        granted = int(question.nodes["gpus"][node] - question.free[node])
        prices = question.prices[node, granted : granted + int(counts[node])].tolist()
        extra += math.fsum(prices) - len(prices) * prices[0]
    return rounds * extra
