"""Sources of interference by their names in scenario files.

To add a source, write a class and add a line to INTERFERENCE_SOURCES.
"""

from __future__ import annotations

from typing import Final

from gpusched_env.sharing.gavel_pairs import GavelPairs
from gpusched_env.sharing.interference import Constant, Interference, Synthetic
from gpusched_env.sharing.lucid import LucidTable
from gpusched_env.sharing.user_table import UserTable

INTERFERENCE_SOURCES: Final[dict[str, type[Interference]]] = {
    "constant": Constant,
    "synthetic": Synthetic,
    "table": UserTable,
    "lucid": LucidTable,
    "gavel": GavelPairs,
}
