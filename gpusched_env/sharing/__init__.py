"""GPU sharing: how many jobs may share a GPU, how much they slow each other down, and how much memory a job needs."""

from typing import Final

from gpusched_env.sharing.gavel_pairs import GavelPairs
from gpusched_env.sharing.interference import MEASURED, Constant, Interference, Synthetic, model_of, synthetic
from gpusched_env.sharing.lucid import LucidTable
from gpusched_env.sharing.pair_numbers import PairNumbers, PairRate, fit_pairs
from gpusched_env.sharing.rules import Sharing
from gpusched_env.sharing.tabulated import SharingTables, sharing_tables
from gpusched_env.sharing.user_table import UserTable

# Sources of interference by their names in scenario files. To add a source, write a class and add a line.
INTERFERENCE_SOURCES: Final[dict[str, type[Interference]]] = {
    "constant": Constant,
    "synthetic": Synthetic,
    "table": UserTable,
    "lucid": LucidTable,
    "gavel": GavelPairs,
}

__all__ = [
    "INTERFERENCE_SOURCES",
    "MEASURED",
    "GavelPairs",
    "Interference",
    "LucidTable",
    "PairNumbers",
    "PairRate",
    "Sharing",
    "SharingTables",
    "UserTable",
    "fit_pairs",
    "model_of",
    "sharing_tables",
    "synthetic",
]
