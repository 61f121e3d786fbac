"""What ended jobs tell about the run times of others: predictors, and distributions by class."""

from __future__ import annotations

from gpusched_env.prediction.history import History
from gpusched_env.prediction.known import Known
from gpusched_env.prediction.levels import LEVELS, STARTS_S
from gpusched_env.prediction.nested import Nested
from gpusched_env.prediction.predictors import PREDICTORS, Predictor, find_predictor, predictor
from gpusched_env.prediction.qssf import Qssf
from gpusched_env.prediction.tobit import Tobit

__all__ = [
    "LEVELS", "PREDICTORS", "STARTS_S", "History", "Known", "Nested", "Predictor", "Qssf", "Tobit", "find_predictor",
    "predictor",
]  # fmt: skip
