"""GPU sharing: how many jobs may share a GPU, how much they slow each other down, and how much memory a job needs."""

from gpusched_env.sharing.gavel_pairs import GavelPairs
from gpusched_env.sharing.interference import Interference, model_of, synthetic
from gpusched_env.sharing.lucid import LucidTable
from gpusched_env.sharing.rules import Sharing
from gpusched_env.sharing.sources import INTERFERENCE_SOURCES
from gpusched_env.sharing.tabulated import SharingTables, sharing_tables
from gpusched_env.sharing.user_table import UserTable

__all__ = [
    "INTERFERENCE_SOURCES",
    "GavelPairs",
    "Interference",
    "LucidTable",
    "Sharing",
    "SharingTables",
    "UserTable",
    "model_of",
    "sharing_tables",
    "synthetic",
]
