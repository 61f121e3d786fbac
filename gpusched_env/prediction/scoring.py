"""How good predictors are on jobs whose run times are known, without look-ahead."""

from __future__ import annotations

import time

import numpy as np

from gpusched_env.prediction.history import History
from gpusched_env.prediction.levels import STARTS_S, levels_of
from gpusched_env.problem.instance import Instance

_WIDTHS_S = np.diff(STARTS_S, append=1.25 * STARTS_S[-1])


def replay(instance: Instance, predictor: str, ends_s: np.ndarray, run_times_s: np.ndarray) -> dict[str, float]:
    """Hand arrivals and ends to a predictor in the order of a schedule, and score what it said at each arrival.

    A job that ran as long as its limit counts as killed.

    Parameters
    ----------
    instance : its jobs are in the order of their arrivals
    ends_s, run_times_s : float64 [J]; NaN = the job does not end

    Returns
    -------
    without : share of jobs without a prediction
    within_2, within_10 : share of predictions that are at most so many times too short or too long
    rank, rank_gpu_time : Spearman correlation of predicted and true times, and of these times GPUs
    too_short : share of predictions that are below the run time
    below_q10, below_q50, below_q90 : share of jobs that are shorter than this quantile of their class
    rps : mean ranked probability score of the distributions by class
    given_up : whether the predictor was at last not trusted
    cpu_s : CPU time [s]
    """
    from scipy.stats import spearmanr

    history, began = History(instance, predictor), time.process_time()
    told = np.empty((len(ends_s), len(STARTS_S)))
    ended = np.flatnonzero(~np.isnan(ends_s)).tolist()
    changes = [(at, 0, row) for row, at in enumerate(history.known.arrival_s.tolist())]
    limits_s = history.known.limit_s
    for _, ends, row in sorted([*changes, *((float(ends_s[row]), 1, row) for row in ended)]):
        if ends:
            history.end(row, float(run_times_s[row]), bool(run_times_s[row] >= limits_s[row]))
        else:
            history.arrive(row)
            told[row] = history.shares[history.class_of[row]]
    cpu_s = time.process_time() - began
    true_s, said_s, gpus = run_times_s[ended], history.predicted_s[ended], history.known.gpus[ended]
    levels = levels_of(true_s)
    reached = np.cumsum(told[ended], axis=1)
    known = ~np.isnan(said_s)
    ratio = said_s[known] / true_s[known]
    varied = len(set(said_s[known].tolist())) > 1 < len(set(true_s[known].tolist()))
    ranks = [float(spearmanr(said_s[known] * by, true_s[known] * by)[0]) for by in (1, gpus[known]) if varied]
    each, last = np.arange(len(ended)), np.minimum((true_s - STARTS_S[levels]) / _WIDTHS_S[levels], 1.0)
    share = reached[each, levels] - (1.0 - last) * told[ended][each, levels]
    missed = reached - (np.arange(len(STARTS_S)) >= levels[:, None])
    return {
        "without": float(np.mean(~known)),
        **{f"within_{most}": _mean((ratio <= most) & (ratio >= 1 / most)) for most in (2, 10)},
        **dict(zip(("rank", "rank_gpu_time"), ranks or [np.nan, np.nan], strict=True)),
        "too_short": _mean(ratio < 1.0),
        **{f"below_q{percent}": _mean(share < percent / 100) for percent in (10, 50, 90)},
        "rps": _mean((missed * missed).sum(axis=1)),
        "given_up": not history.trusted,
        "cpu_s": cpu_s,
    }


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else np.nan
